"""The private keys of simulated clients while they agree on secrets: what two of them share is computed once.

Each secret is the one that the client itself would compute: an exchange has the same result on both sides, and a
ciphertext holds the secret that was put into it. The second of the two takes it, and it is forgotten.
"""

from functools import lru_cache
from typing import final

from f2ed.protocol.primitives.crypto import digest
from f2ed.protocol.primitives.hybrid import (
    HYBRID,
    Agreement,
    Encapsulated,
    HybridKey,
    PrivateKey,
    PrivateKeys,
    encapsulate,
)

__all__ = ["LoadedKeys"]

_KEYS_AT_ONCE = 1024
"""Loaded keys take about 20 kB each."""


@final
class LoadedKeys:
    """The keys of one agreement, loaded once for all of its steps."""

    def __init__(self) -> None:
        self._exchanged: dict[frozenset[bytes], bytes] = {}
        self._encapsulated: dict[bytes, bytes] = {}
        self.load: PrivateKeys = lru_cache(maxsize=_KEYS_AT_ONCE)(self._load)
        """Called as `HybridKey` is."""

    def encapsulate(self, public: bytes) -> Encapsulated:
        """Make a secret for the owner of an ML-KEM-768 key, and keep it until the ciphertext is opened."""
        made = encapsulate(public)
        self._encapsulated[digest(public, made.ciphertext)] = made.secret
        return made

    def _load(self, seed: bytes, *, salt: bytes, label: bytes, kind: Agreement = HYBRID) -> PrivateKey:
        key = HybridKey(seed, salt=salt, label=label, kind=kind)
        return _LoadedKey(key, self._exchanged, self._encapsulated)


@final
class _LoadedKey:
    """One client's keys, which look a secret up before they compute it."""

    def __init__(
        self, key: HybridKey, exchanged: dict[frozenset[bytes], bytes], encapsulated: dict[bytes, bytes]
    ) -> None:
        self._key, self._exchanged, self._encapsulated = key, exchanged, encapsulated
        self.public = key.public
        self.public_kem = self.public.kem

    def exchange(self, public: bytes) -> bytes:
        pair = frozenset((self.public.exchange, public))
        known = self._exchanged.pop(pair, None)
        if known is None:
            known = self._exchanged[pair] = self._key.exchange(public)
        return known

    def decapsulate(self, ciphertext: bytes) -> bytes:
        known = self._encapsulated.pop(digest(self.public_kem, ciphertext), None)
        return self._key.decapsulate(ciphertext) if known is None else known
