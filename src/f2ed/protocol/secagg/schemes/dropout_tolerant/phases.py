"""The phases of a client between two steps, with only the secrets that later steps need."""

from typing import final

from f2ed.protocol.secagg.schemes.dropout_tolerant.messages import Advertisement
from f2ed.protocol.secagg.state import Phase, Redacted
from f2ed.protocol.secagg.terms import Terms

__all__ = ["PHASES", "Advertised", "Confirmed", "HeldShares", "Masked", "Shared"]


@final
class Advertised(Phase, frozen=True, tag="advertised"):
    """After step 0."""

    terms: Terms
    context: bytes
    channel: bytes
    mask: bytes
    seed: bytes
    advertisement: Advertisement


@final
class PairRoot(Redacted, frozen=True):
    """The secret of the masks with one peer."""

    peer: int
    root: bytes


@final
class Shared(Phase, frozen=True, tag="shared"):
    """After step 1."""

    terms: Terms
    context: bytes
    channel: bytes
    mask: bytes
    seed: bytes
    peers: tuple[Advertisement, ...]
    dealt: tuple[bytes, bytes]
    """The root of this client's own parcels, and its signature."""
    roots: tuple[PairRoot, ...] = ()
    """The secret of the masks with each member that this client sent a ciphertext."""


@final
class HeldShares(Redacted, frozen=True):
    """The two shares that a dealer entrusted to this client."""

    dealer: int
    mask: bytes
    seed: bytes


@final
class Masked(Phase, frozen=True, tag="masked"):
    """After step 2: this client's own keys are erased. Its seed is opened with it, if it is alive in the end."""

    terms: Terms
    context: bytes
    seed: bytes
    held: tuple[HeldShares, ...]
    disputed: tuple[int, ...]
    """The dealers about whom this client complained; it holds nothing of theirs."""
    view: bytes
    """The digest of everyone's keys and parcels, which the members must have seen alike."""


@final
class Confirmed(Phase, frozen=True, tag="confirmed"):
    """After step 3."""

    masked: Masked
    alive: tuple[int, ...]


PHASES = (Advertised, Shared, Masked, Confirmed)
