"""The roster: the clients, their Ed25519 keys and the seed of the shard assignment; created outside the server.

An authority that is not the server collects the public keys, closes the list, draws the seed and signs all of it. A
node trusts the file because it knows the authority's public key; the server only reads it.
"""

from functools import cached_property
from pathlib import Path
from typing import Annotated, final

import msgspec
from msgspec import Meta

from f2ed.core.errors import ConfigError, PeerError
from f2ed.core.files import write_atomic
from f2ed.protocol.primitives.crypto import KEY_BYTES, digest, public_key, sign, verify
from f2ed.protocol.sharding import Assignment, ClientId, Fixed, Schedule

__all__ = ["Entry", "Roster", "check_signature", "read_roster", "signed", "write_roster"]

Key = Annotated[bytes, Meta(min_length=KEY_BYTES, max_length=KEY_BYTES)]
_FIXED = Fixed()
Name = Annotated[str, Meta(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9._-]+$")]


@final
class Entry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One client."""

    id: Annotated[int, Meta(ge=0, le=2**63 - 1)]
    name: Name
    key: Key
    """Its public Ed25519 key."""


@final
class Roster(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, dict=True):
    """Everything about a federation that the server must not choose. A draft has no signature."""

    name: Name
    authority: Key
    """The public key of the authority that signs."""
    serial: Annotated[int, Meta(ge=0)] = 0
    """Counts the signings."""
    clients: tuple[Entry, ...] = ()
    shards: Annotated[int, Meta(ge=0)] = 0
    min_crowd: Annotated[int, Meta(ge=1)] = 1
    """Minimum number of clients in a sum that may be opened."""
    schedule: Schedule = Fixed()
    seed: bytes = b""
    """Of the shard assignment: drawn when the list is closed, so nobody can choose an id or a key for its shard."""
    signature: bytes = b""

    def __post_init__(self) -> None:
        """Refuse duplicate ids, names and keys."""
        columns: tuple[tuple[str, list[int] | list[str] | list[bytes]], ...] = (
            ("id", [entry.id for entry in self.clients]),
            ("name", [entry.name for entry in self.clients]),
            ("key", [entry.key for entry in self.clients]),
        )
        for what, values in columns:
            if len(set(values)) < len(values):
                twice = next(value for place, value in enumerate(values) if value in values[:place])
                shown = twice.hex() if isinstance(twice, bytes) else twice
                raise ValueError(f"the {what} {shown} is on the roster twice; every client needs its own")

    @cached_property
    def keys(self) -> dict[ClientId, bytes]:
        """Every client's public key."""
        return {entry.id: entry.key for entry in self.clients}

    @cached_property
    def digest(self) -> bytes:
        """SHA-256 of all but the signature: two parties with the same digest hold the same roster."""
        return digest(b"f2ed signed roster 1", _text(self))

    def assignment(self, round_: int) -> Assignment:
        """Return the shards of a round; every party computes the same."""
        return self.schedule.assign(
            self.keys, shards=self.shards, epoch=self.schedule(round_), seed=self.seed, min_size=max(1, self.min_crowd)
        )

    @property
    def smallest_shard(self) -> int:
        """The number of members of the smallest shard."""
        return self.schedule.min_shard_size(len(self.clients), self.shards)

    def shard_of(self, client: ClientId, round_: int) -> tuple[ClientId, ...]:
        """Return the members of a client's shard."""
        plan = self.assignment(round_)
        return plan.shards[plan.shard_of(client)]

    def job(self, run: int) -> str:
        """Return the name of a run under this roster, the same on both sides."""
        return f"{self.name}.{self.serial}/{run}"


def signed(
    draft: Roster, authority: bytes, *, shards: int, min_crowd: int, schedule: Schedule = _FIXED, seed: bytes
) -> Roster:
    """Close the list and sign it. `authority` is the private key; `seed` is 32 fresh bytes of `os.urandom`."""
    if public_key(authority) != draft.authority:
        raise ConfigError("this is not the private key of the roster's authority; sign with the one it was made with")
    if len(seed) != KEY_BYTES:
        raise ConfigError(f"a seed of {len(seed)} bytes; draw {KEY_BYTES} from os.urandom")
    final_list = msgspec.structs.replace(
        draft,
        serial=draft.serial + 1,
        clients=tuple(sorted(draft.clients, key=lambda entry: entry.id)),
        shards=shards,
        min_crowd=min_crowd,
        schedule=schedule,
        seed=seed,
        signature=b"",
    )
    final_list.assignment(0)  # Raises if these clients cannot be assigned like this.
    return msgspec.structs.replace(final_list, signature=sign(authority, final_list.digest))


def check_signature(roster: Roster, authority: bytes) -> None:
    """Raise `PeerError` unless the authority, known from elsewhere, signed exactly this."""
    if not roster.signature:
        raise PeerError(f"the roster {roster.name!r} is a draft: nobody signed it; run f2ed roster sign")
    if roster.authority != authority:
        raise PeerError(
            f"the roster {roster.name!r} names the authority {roster.authority.hex()[:16]}…; "
            f"this node trusts {authority.hex()[:16]}…"
        )
    try:
        verify(authority, roster.digest, roster.signature)
    except PeerError:
        raise PeerError(
            f"the roster {roster.name!r} was changed after it was signed; get it from the authority again"
        ) from None


def read_roster(path: Path) -> Roster:
    """Read a roster's file, without checking who signed it."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=Roster)
    except OSError as error:
        raise ConfigError(f"the roster {path} cannot be read: {error.strerror}") from None
    except msgspec.DecodeError as error:
        raise ConfigError(f"{path} is not a roster: {error}; make one with f2ed roster new") from None


def write_roster(path: Path, roster: Roster) -> None:
    """Write a roster for people to read and programs to check."""
    write_atomic(path, msgspec.json.format(msgspec.json.encode(roster)) + b"\n", mode=0o644)


def _text(roster: Roster) -> bytes:
    return msgspec.json.encode(msgspec.structs.replace(roster, signature=b""), order="sorted")
