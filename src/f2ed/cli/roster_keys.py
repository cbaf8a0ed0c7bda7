"""`f2ed roster key` and `f2ed roster encrypt`: the private keys of nodes and of the authority."""

import os
import sys
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from f2ed.core.errors import ConfigError
from f2ed.core.files import write_atomic
from f2ed.deployment.encrypted_key import ENTROPY, is_encrypted
from f2ed.deployment.keyfiles import Encryption, encrypted_secret, read_private, read_secret, write_pair
from f2ed.deployment.passphrase import SOURCES, new_passphrase

__all__ = ["Passphrase", "encrypt", "encryption", "key"]

Passphrase = Annotated[str, Parameter(help=f"Where the passphrase of the private key comes from: {SOURCES}.")]


def encryption(path: Path, source: str) -> Encryption | None:
    """Return how a new private key is encrypted; None where no source of a passphrase is named."""
    return Encryption(new_passphrase(path, source), os.urandom(ENTROPY)) if source else None


def key(
    path: Annotated[Path, Parameter(help="Where the private key goes, such as hospital_a.key.")],
    *,
    passphrase: Annotated[str, Parameter(help=f"Encrypt it under a passphrase from: {SOURCES}.")] = "",
) -> None:
    """Create a client's identity key. Run this on the node: the private key never leaves it.

    Example: f2ed roster key hospital_a.key

    Example: f2ed roster key hospital_a.key --passphrase prompt
    """
    public = write_pair(path, os.urandom(32), encryption(path, passphrase))
    hidden = ", encrypted" if passphrase else ""
    sys.stdout.write(
        f"The private key is {path}{hidden}: it stays on this node.\n"
        f"Give {public} to the authority that keeps the roster.\n"
    )


def encrypt(
    path: Annotated[Path, Parameter(help="A private key, or the secret beside the authority's (.chain).")],
    *,
    passphrase: Annotated[str, Parameter(help=f"Encrypt it under a passphrase from: {SOURCES}.")],
) -> None:
    """Encrypt a private key that is not, in place. The public key stays the same.

    Copies of the file that were made before stay as they are: overwrite or destroy them.

    Example: f2ed roster encrypt hospital_a.key --passphrase prompt
    """
    if path.is_file() and is_encrypted(path.read_bytes()):
        raise ConfigError(f"{path} is encrypted already; to change its passphrase: openssl pkcs8 -topk8 -scrypt")
    secret = read_secret(path) if path.suffix == ".chain" else read_private(path)
    made = Encryption(new_passphrase(path, passphrase), os.urandom(ENTROPY))
    write_atomic(path, encrypted_secret(secret, made))
    sys.stdout.write(f"{path} is encrypted now. Copies of it that were made before are not.\n")
