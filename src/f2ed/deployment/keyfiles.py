"""Key files as OpenSSL reads and writes them: Ed25519 in PEM, the private one readable by its owner only."""

import os
from pathlib import Path

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
    load_pem_public_key,
)

from f2ed.core.errors import ConfigError

__all__ = ["read_private", "read_public", "read_secret", "write_new", "write_pair"]


def read_private(path: Path) -> bytes:
    """Read a private key; refuse one that other users of the machine may read."""
    try:
        if path.stat().st_mode & 0o077:
            raise ConfigError(f"the private key {path} may be read by others; run: chmod 600 {path}")
        key = load_pem_private_key(path.read_bytes(), password=None)
    except OSError as error:
        raise ConfigError(f"the private key {path} cannot be read: {error.strerror}") from None
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise ConfigError(f"{path} is not an unencrypted private key in PEM; make one with f2ed roster key") from None
    if not isinstance(key, Ed25519PrivateKey):
        raise ConfigError(f"{path} is a private key of another kind; an Ed25519 key is needed: f2ed roster key")
    return key.private_bytes_raw()


def read_secret(path: Path) -> bytes:
    """Read a secret of 32 bytes in hexadecimal; refuse one that other users of the machine may read."""
    try:
        if path.stat().st_mode & 0o077:
            raise ConfigError(f"the secret {path} may be read by others; run: chmod 600 {path}")
        found = bytes.fromhex(path.read_text().strip())
    except OSError as error:
        raise ConfigError(f"the secret {path} cannot be read: {error.strerror}; restore it") from None
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


def write_pair(path: Path, seed: bytes) -> Path:
    """Write a new private key, and beside it the public one; return where that is."""
    key = Ed25519PrivateKey.from_private_bytes(seed)
    public = path.with_suffix(".pub")
    write_new(path, key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()), secret=True)
    write_new(public, key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    return public


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
