"""What a client remembers between two messages: frozen values that become bytes and never show their secrets.

Each phase holds only what later steps need. Moving on is how secrets are erased: store the new state over the old.
"""

from functools import lru_cache
from typing import Annotated, Any, Generic, TypeAlias, TypeVar, Union, cast, final

import msgspec
from msgspec import Meta

from f2ed.core.errors import ConfigError

__all__ = ["ClientState", "EpochKey", "Phase", "Redacted", "load", "store"]


class Redacted(msgspec.Struct, frozen=True, array_like=True):
    """A value whose `repr` names its fields and shows none of them."""

    def __repr__(self) -> str:
        """Show the type alone."""
        return f"{type(self).__name__}({', '.join(f'{name}=…' for name in self.__struct_fields__)})"


class Phase(Redacted, frozen=True):
    """The stage of a client in a round of several steps; a scheme defines its own phases, each with a tag."""


@final
class EpochKey(Redacted, frozen=True):
    """The keys of an epoch, in schemes that keep keys."""

    epoch: int
    since: int
    """The round in which they were made."""
    context: bytes
    public: bytes
    """Digest of the client's own public keys."""
    seed: bytes
    """Of its private keys; erased as soon as there is a chain with every member."""
    round: int
    """The round of the chains. They never go back: what masked an earlier round is gone."""
    keyset: bytes = b""
    """Digest of all members' keys, once they are verified."""
    peers: tuple[bytes, ...] = ()
    """The members' X25519 keys, until there is a chain with every member."""
    chains: tuple[bytes, ...] = ()
    """One key per member, in their order, that is replaced by its hash in every round; empty for the client itself."""


P = TypeVar("P", bound=Phase)


@final
class _State(msgspec.Struct, Generic[P], frozen=True, array_like=True):
    """All that a client remembers of one job; generic, since a scheme brings its own phases."""

    job: str
    mark: Annotated[tuple[int, ...], Meta(max_length=2)] = ()
    """The latest (epoch, round) that was begun: it never begins again, nor does an earlier one."""
    key: EpochKey | None = None
    phase: P | None = None


ClientState: TypeAlias = _State[Phase]


def store(state: ClientState) -> bytes:
    """Return the state as bytes. They hold secrets: protect them like a private key, and overwrite the old ones."""
    return msgspec.msgpack.encode(state)


def load(data: bytes, job: str, phases: tuple[type[Phase], ...]) -> ClientState:
    """Read a stored state, in any of these phases; empty bytes are a client that has not begun."""
    if not data:
        return ClientState(job)
    try:
        state = cast("ClientState", _decoder(phases).decode(data))
    except ValueError as error:
        raise ConfigError(f"a client's stored state cannot be read ({error}); only bytes from `store` can") from None
    if state.job != job:
        raise ConfigError(f"a state of job {state.job!r} was loaded for job {job!r}; keep one state per job")
    return state


@lru_cache(maxsize=8)
def _decoder(phases: tuple[type[Phase], ...]) -> "msgspec.msgpack.Decoder[Any]":
    return msgspec.msgpack.Decoder(_State[Union[phases]])  # type: ignore[valid-type]  # noqa: UP007
