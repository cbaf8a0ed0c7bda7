"""The roster: the clients, their Ed25519 keys, and how they are sharded and masked; created outside the server.

An authority that is not the server collects the public keys, closes the list, draws the seed of the shard assignment
and signs all of it. A node trusts the file because it knows the authority's public key; the server only reads it.
"""

from functools import cached_property
from pathlib import Path
from typing import Annotated, final

import msgspec
from msgspec import Meta

from f2ed.core.errors import ConfigError, PeerError
from f2ed.core.files import write_atomic
from f2ed.protocol.aggregation import Protocol
from f2ed.protocol.primitives.crypto import KEY_BYTES, digest, public_key, sign, verify
from f2ed.protocol.secagg import MIN_CROWD, Agreed, MaskedMode, ModeChoice, choose_mode
from f2ed.protocol.secagg.schemes import AllOrNothing
from f2ed.protocol.sharding import Assignment, ClientId, Fixed, Schedule

__all__ = ["KEY_ROUNDS", "Entry", "Gone", "Roster", "check_signature", "read_roster", "signed", "write_roster"]

Key = Annotated[bytes, Meta(min_length=KEY_BYTES, max_length=KEY_BYTES)]
Serial = Annotated[int, Meta(ge=0)]
_FIXED = Fixed()
_FORMAT = 2
KEY_ROUNDS = 50
"""How long keys of fixed shards last, unless the authority says otherwise."""
Name = Annotated[str, Meta(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9._-]+$")]


@final
class Entry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One client."""

    id: Annotated[int, Meta(ge=0, le=2**63 - 1)]
    name: Name
    key: Key
    """Its public Ed25519 key."""
    since: Serial = 0
    """The first serial that was signed with it; 0 if none was yet."""


@final
class Gone(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A client that left. Its id, name and key are never used again: nobody new can be taken for it."""

    id: Annotated[int, Meta(ge=0, le=2**63 - 1)]
    name: Name
    key: Key
    until: Serial = 0
    """The first serial that was signed without it; 0 if none was yet."""


class _Version(msgspec.Struct, frozen=True):
    format: int = 1


@final
class Roster(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, dict=True):
    """Everything about a federation that the server must not choose. A draft has no signature."""

    name: Name
    authority: Key
    """The public key of the authority that signs."""
    format: Annotated[int, Meta(ge=_FORMAT, le=_FORMAT)] = _FORMAT
    serial: Serial = 0
    """Counts the signings."""
    clients: tuple[Entry, ...] = ()
    gone: tuple[Gone, ...] = ()
    """Everybody who was ever on the list and left."""
    shards: Annotated[int, Meta(ge=0)] = 0
    min_crowd: Annotated[int, Meta(ge=1)] = 1
    """Minimum number of clients in a sum that may be opened."""
    schedule: Schedule = Fixed()
    mode: MaskedMode = AllOrNothing.mode
    """The scheme of all shards."""
    colluders: Annotated[int, Meta(ge=0)] = 0
    """How many members of a shard may collude with the server."""
    key_rounds: Annotated[int, Meta(ge=1)] = KEY_ROUNDS
    """How many rounds the keys of fixed shards last, in schemes that keep keys."""
    first_round: Annotated[int, Meta(ge=0)] = 0
    """The first round under this serial, at the latest; rounds count over all runs."""
    skip: Annotated[int, Meta(ge=1)] = 2 * KEY_ROUNDS
    """The largest step from the last round that a node answered to the next one."""
    seed: bytes = b""
    """Of the shard assignment: drawn when the list is closed, so nobody can choose an id or a key for its shard."""
    signature: bytes = b""

    def __post_init__(self) -> None:
        """Refuse duplicate ids, names and keys, and those of clients that left."""
        for what in ("id", "name", "key"):
            left = {getattr(entry, what) for entry in self.gone}
            seen: set[object] = set()
            for entry in self.clients:
                value = getattr(entry, what)
                shown = value.hex() if isinstance(value, bytes) else value
                if value in seen:
                    raise ValueError(f"the {what} {shown} is on the roster twice; every client needs its own")
                if value in left:
                    raise ValueError(
                        f"the {what} {shown} belongs to a client that left, and is never used again; a client that "
                        "returns needs a new name and a new key"
                    )
                seen.add(value)

    @cached_property
    def keys(self) -> dict[ClientId, bytes]:
        """Every client's public key."""
        return {entry.id: entry.key for entry in self.clients}

    @cached_property
    def digest(self) -> bytes:
        """SHA-256 of all but the signature: two parties with the same digest hold the same roster."""
        return digest(b"f2ed signed roster 2", _text(self))

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

    @property
    def protocol(self) -> Protocol:
        """How the shards are kept secret."""
        return Protocol(mode=self.mode, colluders=self.colluders, min_crowd=max(MIN_CROWD, self.min_crowd))

    def key_epoch(self, round_: int) -> int:
        """Return the epoch of a round's keys: of the assignment, or of `key_rounds` where that stays."""
        return round_ // self.key_rounds if isinstance(self.schedule, Fixed) else self.schedule(round_)

    def agreed(self, round_: int, members: int) -> Agreed:
        """Return what the terms of a round must say in a shard of this size."""
        quorum = self.protocol.quorum_for(self.mode, members)
        return Agreed(self.mode, self.colluders, quorum.threshold, quorum.min_crowd, self.key_epoch(round_))

    @property
    def lineage(self) -> str:
        """The same for all serials of a federation, in hexadecimal: its name and its authority."""
        return digest(b"f2ed lineage 1", self.name.encode(), self.authority).hex()[:32]

    def job(self, run: int) -> str:
        """Return the name of a run under this roster, the same on both sides."""
        return f"{self.name}.{self.serial}/{run}"


def signed(
    draft: Roster,
    authority: bytes,
    *,
    shards: int,
    min_crowd: int,
    schedule: Schedule = _FIXED,
    mode: ModeChoice = "auto",
    colluders: int | None = None,
    key_rounds: int = KEY_ROUNDS,
    first_round: int = 0,
    skip: int | None = None,
    seed: bytes,
) -> Roster:
    """Close the list and sign it. `authority` is the private key; `seed` is 32 fresh bytes of `os.urandom`.

    By default the mode follows the size of the smallest shard, one member of a shard may collude with the server, and a
    node follows the server over at most 2 * `key_rounds` missed rounds.
    """
    if public_key(authority) != draft.authority:
        raise ConfigError("this is not the private key of the roster's authority; sign with the one it was made with")
    if len(seed) != KEY_BYTES:
        raise ConfigError(f"a seed of {len(seed)} bytes; draw {KEY_BYTES} from os.urandom")
    largest_step = 2 * key_rounds if skip is None else skip
    for name, given, least in (
        ("key_rounds", key_rounds, 1),
        ("first_round", first_round, 0),
        ("skip", largest_step, 1),
    ):
        if given < least:
            raise ConfigError(f"{name} of {given}; it must be {least} or more")
    serial, replace = draft.serial + 1, msgspec.structs.replace
    clients = sorted(draft.clients, key=lambda entry: entry.id)
    outline = replace(
        draft,
        serial=serial,
        clients=tuple(replace(entry, since=entry.since or serial) for entry in clients),
        gone=tuple(replace(entry, until=entry.until or serial) for entry in draft.gone),
        shards=shards,
        min_crowd=min_crowd,
        schedule=schedule,
        key_rounds=key_rounds,
        first_round=first_round,
        skip=largest_step,
        seed=seed,
        signature=b"",
    )
    outline.assignment(0)  # Raises if these clients cannot be assigned like this.
    smallest = outline.smallest_shard
    number = _default_colluders(smallest) if colluders is None else colluders
    most = max(0, smallest - 2)
    if not 0 <= number <= most:
        raise ConfigError(
            f"{number} colluders in a shard of {smallest}: nobody could hide; assume 0 to {most}, or sign for fewer "
            "shards"
        )
    final_list = replace(outline, mode=choose_mode(mode, smallest), colluders=number)
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


def read_roster(path: Path, *, upgrade: bool = False) -> Roster:
    """Read a roster's file, without checking who signed it; `upgrade` makes a draft of one of an older format."""
    try:
        data = path.read_bytes()
        older = msgspec.json.decode(data, type=_Version).format < _FORMAT
        if older and not upgrade:
            raise ConfigError(
                f"{path} is a roster of an older format, which does not fix the mode, the colluders and the keys' "
                "lifetime; the authority signs it again with f2ed roster sign, and gives it to everyone"
            )
        found = msgspec.json.decode(data, type=Roster)
        return _upgraded(found) if older else found
    except OSError as error:
        raise ConfigError(f"the roster {path} cannot be read: {error.strerror}") from None
    except msgspec.DecodeError as error:
        raise ConfigError(f"{path} is not a roster: {error}; make one with f2ed roster new") from None


def write_roster(path: Path, roster: Roster) -> None:
    """Write a roster for people to read and programs to check."""
    write_atomic(path, msgspec.json.format(msgspec.json.encode(roster)) + b"\n", mode=0o644)


def _upgraded(roster: Roster) -> Roster:
    """Return a draft with the clients of a roster whose format knew neither when they came nor who left."""
    clients = tuple(msgspec.structs.replace(entry, since=roster.serial) for entry in roster.clients)
    smallest = roster.smallest_shard if roster.shards else 0
    return msgspec.structs.replace(
        roster,
        clients=clients,
        mode=choose_mode("auto", smallest),
        colluders=_default_colluders(smallest),
        signature=b"",
    )


def _default_colluders(smallest: int) -> int:
    """Return 1 where two honest members are left beside the colluder."""
    return 1 if smallest >= MIN_CROWD else 0


def _text(roster: Roster) -> bytes:
    return msgspec.json.encode(msgspec.structs.replace(roster, signature=b""), order="sorted")
