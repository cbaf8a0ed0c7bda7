"""Key files as OpenSSL reads and writes them: Ed25519 in PEM, the private one readable by its owner only.

The private one may be encrypted under a passphrase.
"""

import os
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
    load_pem_public_key,
)

from f2ed.core.errors import ConfigError
from f2ed.core.files import append
from f2ed.deployment.encrypted_key import encrypted_pem, is_encrypted
from f2ed.deployment.passphrase import passphrase

__all__ = [
    "Encryption",
    "add_chain",
    "encrypted_secret",
    "read_chain",
    "read_private",
    "read_public",
    "read_secret",
    "write_new",
    "write_pair",
    "write_secret",
]

_CHAIN = b"f2ed-chain: "


class Encryption(NamedTuple):
    """How a new file is encrypted."""

    passphrase: bytes
    entropy: bytes
    """Fresh randomness for this file."""

    def __repr__(self) -> str:
        """Show no secret."""
        return "Encryption(<secret>)"


def read_private(path: Path, source: str = "") -> bytes:
    """Read a private key; refuse one that other users of the machine may read.

    `source` says where the passphrase of an encrypted one comes from (`f2ed.deployment.passphrase`).
    """
    pem = _owned(path, "private key")
    key = _decrypted(pem, path, source) if is_encrypted(pem) else _plain(pem, path)
    if not isinstance(key, Ed25519PrivateKey):
        raise ConfigError(f"{path} is a private key of another kind; an Ed25519 key is needed: f2ed roster key")
    return key.private_bytes_raw()


def read_secret(path: Path, source: str = "") -> bytes:
    """Read a secret of 32 bytes in hexadecimal, or encrypted like a key; refuse one that other users may read."""
    content = _owned(path, "secret")
    if is_encrypted(content):
        return read_private(path, source)
    try:
        found = bytes.fromhex(content.decode().strip())
    except ValueError:
        found = b""
    if len(found) != 32:
        raise ConfigError(f"{path} does not hold 64 hexadecimal digits; restore it")
    return found


def read_public(path: Path) -> bytes:
    """Read a public key."""
    try:
        key = load_pem_public_key(path.read_bytes())
    except OSError as error:
        raise ConfigError(f"the public key {path} cannot be read: {error.strerror}") from None
    except (ValueError, UnsupportedAlgorithm):
        raise ConfigError(f"{path} is not a public key in PEM; f2ed roster key writes it beside the private") from None
    if not isinstance(key, Ed25519PublicKey):
        raise ConfigError(f"{path} is a public key of another kind; an Ed25519 key is needed: f2ed roster key")
    return key.public_bytes_raw()


def add_chain(path: Path, head: bytes) -> None:
    """Write the head of the authority's chain below its public key, so that sites get both at once."""
    append(path, _CHAIN + head.hex().encode() + b"\n")


def read_chain(path: Path) -> bytes:
    """Return the head of the chain that stands below an authority's public key; empty if none does."""
    found = [line for line in path.read_bytes().splitlines() if line.startswith(_CHAIN)]
    if not found:
        return b""
    try:
        (head,) = (bytes.fromhex(line.removeprefix(_CHAIN).decode()) for line in found)
    except ValueError:
        head = b""
    if len(head) != 32:
        raise ConfigError(f"{path} names no one chain below the key; get the file from the authority again")
    return head


def write_pair(path: Path, seed: bytes, encryption: Encryption | None = None) -> Path:
    """Write a new private key, and beside it the public one; return where that is."""
    key = Ed25519PrivateKey.from_private_bytes(seed)
    public = path.with_suffix(".pub")
    write_new(path, _pem(key, encryption), secret=True)
    write_new(public, key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    return public


def write_secret(path: Path, secret: bytes, encryption: Encryption | None = None) -> None:
    """Write a new secret of 32 bytes in hexadecimal, or encrypted in the form of a key."""
    if encryption is None:
        write_new(path, secret.hex().encode() + b"\n", secret=True)
        return
    write_new(path, encrypted_secret(secret, encryption), secret=True)


def encrypted_secret(secret: bytes, encryption: Encryption) -> bytes:
    """Return a private key, or another secret of 32 bytes, as an encrypted file."""
    return encrypted_pem(Ed25519PrivateKey.from_private_bytes(secret), *encryption)


def write_new(path: Path, data: bytes, *, secret: bool = False) -> None:
    """Write a new file: a key is never overwritten by accident."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600 if secret else 0o644)
    except FileExistsError:
        raise ConfigError(f"{path} exists already; move it away, or choose another name") from None
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror}") from None
    with os.fdopen(handle, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _pem(key: Ed25519PrivateKey, encryption: Encryption | None) -> bytes:
    if encryption is not None:
        return encrypted_pem(key, *encryption)
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def _owned(path: Path, what: str) -> bytes:
    """Read a file that nobody but its owner may read."""
    try:
        if path.stat().st_mode & 0o077:
            raise ConfigError(f"the {what} {path} may be read by others; run: chmod 600 {path}")
        return path.read_bytes()
    except OSError as error:
        raise ConfigError(f"the {what} {path} cannot be read: {error.strerror}; restore it, or name another") from None


def _plain(pem: bytes, path: Path) -> PrivateKeyTypes:
    try:
        return load_pem_private_key(pem, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise ConfigError(f"{path} is not a private key in PEM; make one with f2ed roster key") from None


def _decrypted(pem: bytes, path: Path, source: str) -> PrivateKeyTypes:
    try:
        return _opened(pem, passphrase(path, source))
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise ConfigError(
            f"the private key {path} does not open with this passphrase; give the right one, or restore the file"
        ) from None


@lru_cache(maxsize=4)
def _opened(pem: bytes, password: bytes) -> PrivateKeyTypes:
    """Decrypt a key, which takes a quarter of a second, once for each file: a node reads it with every message."""
    return load_pem_private_key(pem, password=password)
