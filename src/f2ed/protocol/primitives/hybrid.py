"""Hybrid key agreement: X25519 (RFC 7748) and ML-KEM-768 (FIPS 203) together.

The agreed secret stays secret while either of the two holds: uploads that are recorded today may outlive X25519.
Nothing here draws randomness but `encapsulate`, whose library has no seeded form; drivers inject it.
"""

from collections.abc import Callable
from functools import cached_property, lru_cache
from typing import Literal, NamedTuple, Protocol, final

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.mlkem import MLKEM768PrivateKey, MLKEM768PublicKey

from f2ed.core.errors import ConfigError, PeerError
from f2ed.protocol.primitives.crypto import KEY_BYTES, ExchangeKey, check_exchange_key, derive

__all__ = [
    "CIPHERTEXT_BYTES",
    "HYBRID",
    "KEM_KEY_BYTES",
    "Agreement",
    "Encapsulate",
    "Encapsulated",
    "HybridKey",
    "PrivateKey",
    "PrivateKeys",
    "PublicKeys",
    "check_backend",
    "check_public_keys",
    "combine",
    "encapsulate",
]

Agreement = Literal["x25519+mlkem768", "x25519"]
"""How two clients agree on a secret; X25519 alone falls to a quantum computer."""
HYBRID: Agreement = "x25519+mlkem768"
KEM_KEY_BYTES = 1184
CIPHERTEXT_BYTES = 1088
_SEED_BYTES = 64


class PublicKeys(NamedTuple):
    """What a client publishes: an X25519 key, and an ML-KEM-768 key or b"" where X25519 is used alone."""

    exchange: bytes
    kem: bytes


class Encapsulated(NamedTuple):
    """A fresh ML-KEM secret, and the ciphertext from which the owner of the key finds it."""

    ciphertext: bytes
    secret: bytes

    def __repr__(self) -> str:
        """Show no secret."""
        return f"Encapsulated(ciphertext={len(self.ciphertext)} bytes, secret=<secret>)"


Encapsulate = Callable[[bytes], Encapsulated]
"""Makes a secret for the owner of a public ML-KEM-768 key; in drivers, `encapsulate`."""


@final
class HybridKey:
    """The private keys that follow from 32 fresh bytes, each loaded when it is first used.

    Pass the context as salt, and a label for each use: the same seed then gives unrelated keys.
    """

    def __init__(self, seed: bytes, *, salt: bytes, label: bytes, kind: Agreement = HYBRID) -> None:
        if len(seed) != KEY_BYTES:
            raise ConfigError(f"a seed of {len(seed)} bytes for a key pair; give {KEY_BYTES} fresh ones")
        self._seed, self._salt, self._label, self._kind = seed, salt, label, kind

    def __repr__(self) -> str:
        """Show no secret."""
        return f"HybridKey(<secret>, kind={self._kind!r})"

    @property
    def public(self) -> PublicKeys:
        """The public keys."""
        return PublicKeys(self._exchange.public, self.public_kem)

    @cached_property
    def public_kem(self) -> bytes:
        """The public ML-KEM-768 key alone; b"" where X25519 is used alone."""
        return self._kem.public_key().public_bytes_raw() if self._kind == HYBRID else b""

    def exchange(self, public: bytes) -> bytes:
        """Return the X25519 secret with the owner of a public key; one of small order raises `PeerError`."""
        return self._exchange(public)

    def decapsulate(self, ciphertext: bytes) -> bytes:
        """Return the ML-KEM secret in a ciphertext; a changed one gives another secret, one of another size an error.

        Where X25519 is used alone there is neither: the ciphertext and the secret are empty.
        """
        if self._kind != HYBRID:
            if ciphertext:
                raise PeerError("an ML-KEM ciphertext where X25519 is used alone")
            return b""
        if len(ciphertext) != CIPHERTEXT_BYTES:
            raise PeerError(f"an ML-KEM-768 ciphertext of {len(ciphertext)} bytes; it has {CIPHERTEXT_BYTES}")
        return self._kem.decapsulate(ciphertext)

    @cached_property
    def _exchange(self) -> ExchangeKey:
        return ExchangeKey(derive(self._seed, salt=self._salt, info=self._label + b" x25519"))

    @cached_property
    def _kem(self) -> MLKEM768PrivateKey:
        seed = derive(self._seed, salt=self._salt, info=self._label + b" mlkem768", length=_SEED_BYTES)
        return _load(seed)


class PrivateKey(Protocol):
    """What a client does with its private keys: `HybridKey`, or in a simulation one that remembers secrets."""

    @property
    def public(self) -> PublicKeys:
        """The public keys."""

    @property
    def public_kem(self) -> bytes:
        """The public ML-KEM-768 key alone."""

    def exchange(self, public: bytes) -> bytes:
        """Return the X25519 secret with the owner of a public key."""

    def decapsulate(self, ciphertext: bytes) -> bytes:
        """Return the ML-KEM secret in a ciphertext."""


class PrivateKeys(Protocol):
    """Loads private keys from their seed: `HybridKey`, or in a simulation one that keeps them for the next step."""

    def __call__(self, seed: bytes, *, salt: bytes, label: bytes, kind: Agreement = HYBRID) -> PrivateKey:
        """Return the keys."""


def encapsulate(public: bytes) -> Encapsulated:
    """Make a secret for the owner of an ML-KEM-768 key, with randomness of the library: for drivers alone."""
    secret, ciphertext = _public_kem_key(public).encapsulate()
    return Encapsulated(ciphertext, secret)


def check_public_keys(keys: PublicKeys, kind: Agreement) -> None:
    """Raise `PeerError` for keys of small order, of the wrong kind or of no kind."""
    check_exchange_key(keys.exchange)
    if kind == HYBRID:
        _public_kem_key(keys.kem)
    elif keys.kem:
        raise PeerError("an ML-KEM key where X25519 is used alone")


def combine(exchanged: bytes, encapsulated: bytes, *, salt: bytes, transcript: bytes) -> bytes:
    """Return the secret of a pair from both of its secrets; the ML-KEM one is empty where X25519 is used alone.

    The transcript is everything public that led to it (ids, public keys, ciphertext), each field with its length, so
    that the result is bound to all of it, whatever ML-KEM by itself binds.
    """
    if len(exchanged) != KEY_BYTES or len(encapsulated) not in (0, KEY_BYTES):
        raise ConfigError(f"secrets of {len(exchanged)} and {len(encapsulated)} bytes; each has {KEY_BYTES}")
    return derive(encapsulated + exchanged, salt=salt, info=transcript)


def check_backend(kind: Agreement) -> None:
    """Raise `ConfigError` if this installation cannot agree on keys in this way."""
    if kind == HYBRID:
        _load(bytes(_SEED_BYTES))


def _load(seed: bytes) -> MLKEM768PrivateKey:
    try:
        return MLKEM768PrivateKey.from_seed_bytes(seed)
    except UnsupportedAlgorithm:
        raise _unsupported() from None


@lru_cache(maxsize=1024)  # A server checks a key, and the members of a simulated shard use it.
def _public_kem_key(public: bytes) -> MLKEM768PublicKey:
    try:
        return MLKEM768PublicKey.from_public_bytes(public)
    except UnsupportedAlgorithm:
        raise _unsupported() from None
    except ValueError:
        raise PeerError(f"{len(public)} bytes that are not an ML-KEM-768 key") from None


def _unsupported() -> ConfigError:
    return ConfigError(
        f"the agreement {HYBRID!r} needs ML-KEM-768, which the cryptography package of this installation lacks; "
        "install its wheel (pip install 'cryptography>=48'), or build it with OpenSSL 3.5 or later"
    )
