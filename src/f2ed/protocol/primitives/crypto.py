"""The cryptographic primitives of the protocol, all of them from `cryptography`.

HKDF-SHA-256 (RFC 5869), X25519 (RFC 7748), Ed25519 (RFC 8032), AES-256-GCM and AES-256-CTR (NIST SP 800-38D and A).
Nothing here draws randomness: secrets come in as arguments.
"""

import hashlib
import hmac
from collections.abc import Callable

from cryptography.exceptions import InvalidSignature, InvalidTag
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from f2ed.core.errors import ConfigError, PeerError
from f2ed.protocol.primitives.fields import fields

__all__ = [
    "KEY_BYTES",
    "SIGNATURE_BYTES",
    "Keystream",
    "agreement",
    "check_exchange_key",
    "derive",
    "digest",
    "public_exchange_key",
    "public_key",
    "ratchet",
    "same",
    "seal",
    "sign",
    "unseal",
    "verify",
]

KEY_BYTES = 32
SIGNATURE_BYTES = 64

# A sealing key serves one message in one direction of one context, so a fixed nonce never repeats under it.
_ONE_MESSAGE = bytes(12)
_ZEROS = memoryview(bytes(1 << 19))


def digest(*parts: bytes) -> bytes:
    """Return SHA-256 of the parts, each after its length."""
    return hashlib.sha256(fields(*parts)).digest()


def same(one: bytes, other: bytes) -> bool:
    """Compare in constant time."""
    return hmac.compare_digest(one, other)


def derive(secret: bytes, *, salt: bytes, info: bytes, length: int = KEY_BYTES) -> bytes:
    """Return `length` bytes of HKDF-SHA-256."""
    return HKDF(algorithm=SHA256(), length=length, salt=salt, info=info).derive(secret)


def ratchet(chain: bytes) -> bytes:
    """Return the next key of a chain; none before it can be computed from it."""
    return hmac.digest(chain, b"f2ed ratchet 3", "sha256")


def public_exchange_key(private: bytes) -> bytes:
    """Return the public half of a private X25519 key."""
    return X25519PrivateKey.from_private_bytes(private).public_key().public_bytes_raw()


def agreement(private: bytes) -> Callable[[bytes], bytes]:
    """Return a function from a public key to the X25519 secret; loading the private key once halves the cost.

    A public key of small order, which would make the secret all zero, raises `PeerError`.
    """
    key = X25519PrivateKey.from_private_bytes(private)

    def agree(public: bytes) -> bytes:
        try:
            return key.exchange(X25519PublicKey.from_public_bytes(public))
        except ValueError:
            raise PeerError(
                "an X25519 key of small order: the agreed secret would be all zero and known to all"
            ) from None

    return agree


def check_exchange_key(public: bytes) -> None:
    """Raise `PeerError` for a public key of small order; any private key reveals it."""
    _probe(public)


def public_key(seed: bytes) -> bytes:
    """Return the public half of a private Ed25519 key."""
    return Ed25519PrivateKey.from_private_bytes(seed).public_key().public_bytes_raw()


def sign(seed: bytes, message: bytes) -> bytes:
    """Return the Ed25519 signature, 64 bytes."""
    return Ed25519PrivateKey.from_private_bytes(seed).sign(message)


def verify(public: bytes, message: bytes, signature: bytes) -> None:
    """Raise `PeerError` unless the signature on this message verifies under this key."""
    try:
        Ed25519PublicKey.from_public_bytes(public).verify(signature, message)
    except (InvalidSignature, ValueError):
        raise PeerError("a signature that does not verify under the roster's key and this context") from None


def seal(key: bytes, plain: bytes, *, associated: bytes) -> bytes:
    """Encrypt and authenticate the only message that this key ever seals; adds 16 bytes."""
    return AESGCM(key).encrypt(_ONE_MESSAGE, plain, associated)


def unseal(key: bytes, sealed: bytes, *, associated: bytes) -> bytes:
    """Decrypt a sealed message, or raise `PeerError` if it or its associated data was changed."""
    try:
        return AESGCM(key).decrypt(_ONE_MESSAGE, sealed, associated)
    except InvalidTag:
        raise PeerError("a sealed message that does not open: corrupted, or meant for another context") from None


class Keystream:
    """The AES-256-CTR keystream of one key from a zero IV, after `skip` blocks of 16 bytes."""

    def __init__(self, key: bytes, *, skip: int = 0) -> None:
        if len(key) != KEY_BYTES:
            raise ConfigError(f"a key of {len(key)} bytes; AES-256 takes {KEY_BYTES}")
        self._encryptor = Cipher(algorithms.AES(key), modes.CTR(skip.to_bytes(16, "big"))).encryptor()

    def fill(self, out: memoryview) -> None:
        """Overwrite `out`, at most 512 KiB, with the next bytes; nothing is allocated and the GIL is released."""
        if len(out) > len(_ZEROS):  # The rest would stay unmasked.
            raise ConfigError(f"{len(out)} bytes of keystream at a time; fill at most {len(_ZEROS)}")
        self._encryptor.update_into(_ZEROS[: len(out)], out)


_probe = agreement(bytes(KEY_BYTES))
