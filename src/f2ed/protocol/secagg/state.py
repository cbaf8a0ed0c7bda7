"""What a client remembers between two messages: frozen values that become bytes and never show their secrets.

Each phase holds only what later steps need. Moving on is how secrets are erased: store the new state over the old.
"""

from typing import Annotated, final

import msgspec
from msgspec import Meta

from f2ed.core.errors import ConfigError
from f2ed.protocol.secagg.messages import Advertisement
from f2ed.protocol.secagg.terms import Terms

__all__ = ["Advertised", "Confirmed", "EpochKey", "Held", "Masked", "Phase", "Shared", "State", "load", "store"]


class Redacted(msgspec.Struct, frozen=True, array_like=True):
    """A value whose `repr` names its fields and shows none of them."""

    def __repr__(self) -> str:
        """Show the type alone."""
        return f"{type(self).__name__}({', '.join(f'{name}=…' for name in self.__struct_fields__)})"


@final
class EpochKey(Redacted, frozen=True):
    """All-or-nothing: the private key of an epoch."""

    epoch: int
    context: bytes
    private: bytes
    peers: bytes = b""
    """Digest of the members' keys that were verified last."""
    agreed: tuple[bytes, ...] = ()
    """The secret with each of those members, in their order; nothing for itself."""


@final
class Advertised(Redacted, frozen=True, tag="advertised"):
    """After step 0."""

    terms: Terms
    context: bytes
    channel: bytes
    mask: bytes
    seed: bytes
    advertisement: Advertisement


@final
class Shared(Redacted, frozen=True, tag="shared"):
    """After step 1."""

    terms: Terms
    context: bytes
    channel: bytes
    mask: bytes
    seed: bytes
    peers: tuple[Advertisement, ...]
    own_share: bytes


@final
class Held(Redacted, frozen=True):
    """The two shares that a dealer entrusted to this client."""

    dealer: int
    mask: bytes
    seed: bytes


@final
class Masked(Redacted, frozen=True, tag="masked"):
    """After step 2: its own keys are gone."""

    terms: Terms
    context: bytes
    held: tuple[Held, ...]
    own_share: bytes


@final
class Confirmed(Redacted, frozen=True, tag="confirmed"):
    """After step 3."""

    masked: Masked
    alive: tuple[int, ...]


Phase = Advertised | Shared | Masked | Confirmed


@final
class State(msgspec.Struct, frozen=True, array_like=True):
    """All that a client remembers of one job."""

    job: str
    mark: Annotated[tuple[int, ...], Meta(max_length=2)] = ()
    """The latest (epoch, round) that was begun: never again, nor an earlier one."""
    key: EpochKey | None = None
    phase: Phase | None = None
    opened: dict[bytes, tuple[bytes, ...]] = {}
    """By company (digest of a shard's members): the distinct sets of survivors in whose sum this client was opened."""


def store(state: State) -> bytes:
    """Return the state as bytes. They hold secrets: keep them as you keep a private key, and overwrite the old ones."""
    return msgspec.msgpack.encode(state)


def load(data: bytes, job: str) -> State:
    """Read a stored state; no bytes at all are a client that has not begun."""
    if not data:
        return State(job)
    try:
        state = msgspec.msgpack.decode(data, type=State)
    except ValueError as error:
        raise ConfigError(f"a client's stored state cannot be read ({error}); only bytes from `store` can") from None
    if state.job != job:
        raise ConfigError(f"a state of job {state.job!r} was loaded for job {job!r}; keep one state per job")
    return state
