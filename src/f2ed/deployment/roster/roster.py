"""The roster: the clients, their Ed25519 keys, and how they are sharded and masked; created outside the server.

An authority that is not the server collects the public keys, closes the list, draws the seed of the shard assignment
and signs all of it. A node trusts the file because it knows the authority's public key; the server only reads it.
"""

from functools import cached_property
from typing import Annotated, Any, final

import msgspec
from msgspec import UNSET, Meta, UnsetType

from f2ed.core.errors import ConfigError, PeerError, Refusal
from f2ed.deployment.roster.helper_parts import Countersignature, Helpers
from f2ed.deployment.roster.parts import (
    Agreement,
    App,
    Draw,
    Entry,
    Gone,
    Group,
    Grouping,
    Key,
    Name,
    Risk,
    Serial,
    SignedEncoding,
    Weight,
)
from f2ed.deployment.training_rules import TrainingRules, check_risks
from f2ed.protocol.aggregation import Buffers, Protocol
from f2ed.protocol.primitives.crypto import digest, verify
from f2ed.protocol.secagg import MIN_CROWD, MaskedMode
from f2ed.protocol.secagg.schemes import AllOrNothing
from f2ed.protocol.sharding import (
    Assignment,
    ClientId,
    Fixed,
    Schedule,
    assign_groups,
    min_union,
    roster_hash,
    sample_groups,
)

__all__ = ["FORMAT", "KEY_ROUNDS", "Roster", "revised"]

FORMAT = 3
KEY_ROUNDS = 50
"""How long keys of fixed shards last, unless the authority says otherwise."""


@final
class Roster(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, dict=True):
    """Everything about a federation that the server must not choose. A draft has no signature."""

    name: Name
    authority: Key
    """The public key of the authority that signs."""
    format: Annotated[int, Meta(ge=FORMAT, le=FORMAT)] = FORMAT
    serial: Serial = 0
    """Counts the signings."""
    previous: bytes = b""
    """The digest of the serial before; empty in the first."""
    expires: Annotated[str, Meta(pattern=r"^(\d{4}-\d{2}-\d{2})?$")] = ""
    """The last day, in UTC, on which nodes follow this serial, as in 2031-12-31; empty for no end."""
    clients: tuple[Entry, ...] = ()
    gone: tuple[Gone, ...] = ()
    """Everybody who was ever on the list and left."""
    shards: Annotated[int, Meta(ge=0)] = 0
    shards_per_round: Annotated[int, Meta(ge=1)] | UnsetType = UNSET
    """How many of the fixed shards are drawn for a round; left out where all of them take part."""
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
    weight_cap: Weight = 1
    """The largest weight that a client may have."""
    encoding: SignedEncoding = SignedEncoding()
    noise_multiplier: Annotated[float, Meta(ge=0, le=1e6)] = 0.0
    """Standard deviation of the noise in a shard's sum, as a multiple of the clip norm; 0 for none."""
    grouping: Grouping = Grouping()
    groups: tuple[Group, ...] = ()
    """Clients that are opened together or not at all. Clients in none of them wait."""
    history: tuple[Group, ...] = ()
    """All groups that ever were and are no more."""
    draw: Draw = Draw()
    apps: tuple[App, ...] = ()
    """The apps that nodes may run."""
    training: TrainingRules = TrainingRules()
    buffers: Buffers | UnsetType = UNSET
    """What happens to the model's buffers, and at which value single arrays are clipped. Left out in older rosters:
    there buffers are clipped and judged like weights."""
    agreement: Agreement = "x25519+mlkem768"
    server: bytes = b""
    """The public Ed25519 key that signs the server's log; empty without one."""
    accepted: tuple[Risk, ...] = ()
    """The risks that this roster takes."""
    seed: bytes = b""
    """Of the shard assignment: drawn when the list is closed, so nobody can choose an id or a key for its shard."""
    helpers: Helpers | UnsetType = UNSET
    """The two parties besides the server; left out where updates are hidden in shards."""
    signature: bytes = b""
    countersignatures: tuple[Countersignature, ...] | UnsetType = UNSET
    """By the helpers, on the digest."""

    def __post_init__(self) -> None:
        """Refuse duplicate ids, names and keys, those of clients that left, and numbers that do not fit together."""
        if heavy := [entry for entry in self.clients if entry.weight > self.weight_cap]:
            raise ValueError(f"{heavy[0].name} has the weight {heavy[0].weight}, above the cap of {self.weight_cap}")
        if self.noise_multiplier and self.encoding.clip_norm is None:
            raise ValueError("a noise_multiplier without a clip_norm; set it to about the norm of an honest update")
        if self.shards_per_round and not isinstance(self.schedule, Fixed):
            raise ValueError("shards_per_round draws among fixed shards; leave it out, or do not reshard")
        if self.shards_per_round and self.shards and self.shards_per_round > self.shards:
            raise ValueError(f"{self.shards_per_round} shards per round of {self.shards}; draw 1 to {self.shards}")
        check_risks(self.training, self.accepted, self.array_rules)
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
        """SHA-256 of all but the signatures: two parties with the same digest hold the same roster."""
        return digest(b"f2ed signed roster 3", _text(self))

    def assignment(self, round_: int) -> Assignment:
        """Return the shards that take part in a round; every party computes the same."""
        whole = self.whole_assignment(round_)
        if self.shards_per_round is UNSET:
            return whole
        drawn = sample_groups(
            whole.shards, count=self.shards_per_round, epoch=round_, seed=self.seed, roster=whole.roster
        )
        return msgspec.structs.replace(whole, shards=drawn, epoch=round_)

    @property
    def round_shards(self) -> int:
        """The number of shards that take part in a round."""
        return self.shards if self.shards_per_round is UNSET else self.shards_per_round

    @property
    def round_clients(self) -> int:
        """About how many clients take part in a round."""
        everyone = len(self.clients)
        return everyone if self.shards_per_round is UNSET else everyone * self.shards_per_round // max(1, self.shards)

    def whole_assignment(self, round_: int) -> Assignment:
        """Return all shards, each a union of groups, whether or not they take part in this round."""
        return assign_groups(
            [group.members for group in self.groups],
            shards=self.shards,
            epoch=self.schedule(round_),
            seed=self.seed,
            roster=roster_hash(self.keys),
            min_size=max(1, self.min_crowd),
        )

    @property
    def array_rules(self) -> Buffers | None:
        """The rules for buffers and single arrays, if any were signed."""
        return None if isinstance(self.buffers, UnsetType) else self.buffers

    @property
    def smallest_shard(self) -> int:
        """A lower bound on the number of members of each shard."""
        return min_union([group.members for group in self.groups], self.shards)

    @cached_property
    def waiting(self) -> tuple[ClientId, ...]:
        """The clients that are in no group: they take no part until the authority makes one for them."""
        grouped = {client for group in self.groups for client in group.members}
        return tuple(sorted(self.keys.keys() - grouped))

    def check_grouped(self, client: ClientId) -> None:
        """Refuse to take part for a client that waits."""
        if client in self.waiting:
            raise Refusal(
                f"client {client} waits: it is in no group of the roster {self.name!r} (serial {self.serial}) yet, and "
                "takes part once the authority signs one in which it is"
            )

    def shard_of(self, client: ClientId, round_: int) -> tuple[ClientId, ...]:
        """Return the members of a client's shard, or refuse a round that it was not drawn for."""
        plan = self.assignment(round_)
        return plan.shards[self.drawn_shard(client, plan, round_)]

    def drawn_shard(self, client: ClientId, plan: Assignment, round_: int) -> int:
        """Return the number of a client's shard, or refuse a round that it was not drawn for."""
        self.check_grouped(client)
        if self.shards_per_round is not UNSET and not any(client in members for members in plan.shards):
            raise Refusal(
                f"client {client} is not in the sample of round {round_}: the seed of the roster draws "
                f"{self.shards_per_round} of {self.shards} shards, and this client's is not among them"
            )
        return plan.shard_of(client)

    @property
    def protocol(self) -> Protocol:
        """How the shards are kept secret."""
        return Protocol(
            mode=self.mode,
            colluders=self.colluders,
            min_crowd=max(MIN_CROWD, self.min_crowd),
            agreement=self.agreement,
        )

    def key_epoch(self, round_: int) -> int:
        """Return the epoch of a round's keys: of the assignment, or of `key_rounds` where that stays."""
        if self.shards_per_round is not UNSET:
            return round_
        return round_ // self.key_rounds if isinstance(self.schedule, Fixed) else self.schedule(round_)

    @property
    def lineage(self) -> str:
        """The same for all serials of a federation, in hexadecimal: its name and its authority."""
        return digest(b"f2ed lineage 1", self.name.encode(), self.authority).hex()[:32]

    def job(self, run: int) -> str:
        """Return the name of a run under this roster, the same on both sides.

        Every key and mask is bound to it, and with it to the digest: parties with different rosters open nothing.
        """
        return f"{self.name}.{self.serial}/{self.digest.hex()}/{run}"


def revised(roster: Roster, **changes: Any) -> Roster:
    """Return a draft of the next serial with these changes; it names the signed roster that it follows."""
    if roster.signature:
        _check_unchanged(roster)
    previous = roster.digest if roster.signature else roster.previous
    try:
        return msgspec.structs.replace(roster, previous=previous, signature=b"", countersignatures=UNSET, **changes)
    except ValueError as error:
        raise ConfigError(str(error)) from None


def _check_unchanged(roster: Roster) -> None:
    """Refuse to follow a roster that nobody signed: the next serial would name a digest that no node knows."""
    try:
        verify(roster.authority, roster.digest, roster.signature)
    except PeerError:
        raise ConfigError(
            f"serial {roster.serial} of the roster {roster.name!r} was changed after it was signed; start from the "
            "file that was signed, and change it with f2ed roster sign"
        ) from None


def _text(roster: Roster) -> bytes:
    bare = msgspec.structs.replace(roster, signature=b"", countersignatures=UNSET)
    return msgspec.json.encode(bare, order="sorted")
