"""The cryptographic primitives of the protocol, all of them from `cryptography`.

HKDF-SHA-256 (RFC 5869), X25519 (RFC 7748), Ed25519 (RFC 8032), AES-256-GCM and AES-256-CTR (NIST SP 800-38D and A).
Nothing here draws randomness: secrets come in as arguments.
"""

import hashlib
import hmac
from functools import lru_cache
from typing import NamedTuple, final

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
    "ExchangeKey",
    "Keystream",
    "check_exchange_key",
    "derive",
    "digest",
    "public_key",
    "ratchet",
    "same",
    "seal",
    "seal_into",
    "sign",
    "unseal",
    "verify",
]

KEY_BYTES = 32
SIGNATURE_BYTES = 64

# A sealing key serves one message in one direction of one context, so a fixed nonce never repeats under it.
_ONE_MESSAGE = bytes(12)
_TAG_BYTES = 16
_ZEROS = memoryview(bytes(1 << 19))
_MOST_REMEMBERED = 1 << 14


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


@final
class ExchangeKey:
    """A private X25519 key, loaded once, which is as much work as an exchange; call it with another's public key."""

    def __init__(self, private: bytes) -> None:
        self._key = X25519PrivateKey.from_private_bytes(private)

    @property
    def public(self) -> bytes:
        """The public half; this process need not check it later."""
        public = self._key.public_key().public_bytes_raw()
        _remember(_as_usable(public))
        return public

    def __call__(self, public: bytes) -> bytes:
        """Return the secret with the owner of a public key; one of small order, known to all, raises `PeerError`."""
        try:
            return self._key.exchange(X25519PublicKey.from_public_bytes(public))
        except ValueError:
            raise PeerError(
                "an X25519 key of small order: the agreed secret would be all zero and known to all"
            ) from None


def check_exchange_key(public: bytes) -> None:
    """Raise `PeerError` for a public key of small order; any private key reveals it.

    One that this process made is known: the server of a simulation checks those of its clients.
    """
    if _as_usable(public) not in _valid:
        _probe(public)


def public_key(seed: bytes) -> bytes:
    """Return the public half of a private Ed25519 key."""
    return _signer(seed).public


def sign(seed: bytes, message: bytes) -> bytes:
    """Return the Ed25519 signature, 64 bytes."""
    signer = _signer(seed)
    signature = signer.key.sign(message)
    _remember(digest(signer.public, message, signature))
    return signature


def verify(public: bytes, message: bytes, signature: bytes) -> None:
    """Raise `PeerError` unless the signature on this message verifies under this key.

    A signature that this process made or has verified lately is known by the hash of all three: the members of a
    simulated shard, and its server, check the same ones.
    """
    if (known := digest(public, message, signature)) in _valid:
        return
    try:
        Ed25519PublicKey.from_public_bytes(public).verify(signature, message)
    except (InvalidSignature, ValueError):
        raise PeerError("a signature that does not verify under the roster's key and this context") from None
    _remember(known)


class _Signer(NamedTuple):
    key: Ed25519PrivateKey
    public: bytes


@lru_cache(maxsize=1024)  # Loading costs as much as signing, and a process that signs keeps the seed anyway.
def _signer(seed: bytes) -> _Signer:
    key = Ed25519PrivateKey.from_private_bytes(seed)
    return _Signer(key, key.public_key().public_bytes_raw())


def _as_usable(public: bytes) -> bytes:
    return digest(b"an X25519 key that is not of small order", public)


def _remember(known: bytes) -> None:
    if len(_valid) >= _MOST_REMEMBERED:
        _valid.clear()
    _valid.add(known)


def seal(key: bytes, plain: bytes, *, associated: bytes) -> bytes:
    """Encrypt and authenticate the only message that this key ever seals; adds 16 bytes."""
    return AESGCM(key).encrypt(_ONE_MESSAGE, plain, associated)


def seal_into(out: bytearray, key: bytes, plain: bytes | bytearray, *, associated: bytes) -> None:
    """Seal as `seal` does, into memory that is used again: fresh memory costs as much as the encryption."""
    if len(out) != len(plain) + _TAG_BYTES:
        out[:] = bytes(len(plain) + _TAG_BYTES)
    AESGCM(key).encrypt_into(_ONE_MESSAGE, plain, associated, out)


def unseal(key: bytes, sealed: bytes | memoryview, *, associated: bytes) -> bytes:
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


_probe = ExchangeKey(bytes(KEY_BYTES))
_valid: set[bytes] = set()
