"""What server, mixer, judge and clients agree on before a round, and the 32 bytes that bind everything to it."""

from collections.abc import Mapping
from math import isfinite
from typing import Annotated, Literal, final

import msgspec
from msgspec import Meta

from f2ed.core.errors import ConfigError
from f2ed.protocol.helpers.field import P
from f2ed.protocol.helpers.sketch import MAX_COORDINATES, folding_width
from f2ed.protocol.primitives.crypto import KEY_BYTES, digest
from f2ed.protocol.primitives.fields import unsigned
from f2ed.protocol.primitives.hybrid import HYBRID, Agreement
from f2ed.protocol.quantization.encoding import Encoding
from f2ed.protocol.sharding import ClientId

__all__ = [
    "JUDGE",
    "MAX_MEMBERS",
    "MIN_CROWD",
    "MIXER",
    "ROLES",
    "SERVER",
    "STEPS_PER_CLIP",
    "Id",
    "Key",
    "Relay",
    "Role",
    "Terms",
    "bind",
    "check",
    "encoding_of",
    "lasting",
]

Role = Literal["server", "mixer", "judge"]
SERVER: Role = "server"
MIXER: Role = "mixer"
JUDGE: Role = "judge"
ROLES: tuple[Role, ...] = (SERVER, MIXER, JUDGE)
Relay = Literal["sketch", "full"]

MAX_MEMBERS = 4096
MIN_CROWD = 3
"""No sum of fewer is ever opened."""
STEPS_PER_CLIP = 1 << 20
"""An update as long as the clip norm has about this length in integers."""
_ENCODED_BITS = 21
_VERSION = b"f2ed helpers 1"

Id = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Count = Annotated[int, Meta(ge=0, le=2**32)]
Key = Annotated[bytes, Meta(min_length=KEY_BYTES, max_length=KEY_BYTES)]
_Name = Annotated[str, Meta(min_length=1, max_length=256)]
_Group = Annotated[tuple[Id, ...], Meta(min_length=2, max_length=MAX_MEMBERS)]


@final
class Terms(msgspec.Struct, frozen=True, kw_only=True, array_like=True, forbid_unknown_fields=True):
    """The terms of one round, as the server states them; each party compares them with its own policy."""

    policy: Key
    """SHA-256 of the signed policy."""
    job: Annotated[str, Meta(max_length=256)]
    epoch: Count
    """Strikes, and nested sets of survivors, last an epoch; it never decreases."""
    round: Count
    epoch_rounds: Annotated[int, Meta(ge=1, le=2**32)]
    """Rounds of an epoch: it is no choice of the server when the sets of survivors start over."""
    members: Annotated[tuple[Id, ...], Meta(min_length=1, max_length=MAX_MEMBERS)]
    coordinates: Annotated[int, Meta(ge=1, le=MAX_COORDINATES)]
    clip_norm: Annotated[float, Meta(gt=0, le=1e30)]
    rule: Annotated[bytes, Meta(max_length=1 << 16)]
    """The estimator that the judge applies, as JSON."""
    crowd: Annotated[int, Meta(ge=MIN_CROWD, le=MAX_MEMBERS)]
    """The smallest number of clients in the sum that is opened."""
    colluders: Count = 0
    """How many clients may collude with one of the parties; the sum then hides a client among crowd - colluders."""
    groups: Annotated[tuple[_Group, ...], Meta(max_length=MAX_MEMBERS)] = ()
    """Fixed groups: the opened sum takes all members of a group or none. Empty for nested sets."""
    step: Annotated[int, Meta(ge=0, le=MAX_MEMBERS)] = 0
    """Nested sets: within an epoch the survivors stay the same, or become fewer by at least so many."""
    sketch: Annotated[int, Meta(ge=9, le=1 << 17)] = 4096
    """Columns of the sketch, at most."""
    foldings: Annotated[int, Meta(ge=2, le=8)] = 3
    tests: Annotated[int, Meta(ge=1, le=1024)] = 80
    relay: Relay = "sketch"
    """Whether the mixer sees every masked row, or sketches of all and `spot` rows of its choice."""
    spot: Count = 8
    """How many masked rows the mixer checks against their sketches; with `relay = "full"` all of them."""
    accusations: Count = 0
    """How many clients a helper may accuse in one round."""
    operators: tuple[_Name, _Name, _Name]
    """Who runs the server, the mixer and the judge: three different ones."""
    keys: tuple[Key, Key, Key]
    """Their Ed25519 keys, in the same order."""
    agreement: Agreement = HYBRID
    """How clients seal seeds to the three parties."""

    def key_of(self, role: Role) -> bytes:
        """Return a party's Ed25519 key."""
        return self.keys[ROLES.index(role)]

    @property
    def columns(self) -> int:
        """Columns of the sketch: foldings of equal prime width."""
        return self.foldings * folding_width(self.sketch, self.foldings)

    @property
    def checked_rows(self) -> int:
        """How many masked rows the mixer checks, at most."""
        return len(self.members) if self.relay == "full" else self.spot


def check(terms: Terms) -> None:
    """Raise `ConfigError` for terms under which a client could be singled out, or a sum could wrap around."""
    if list(terms.members) != sorted(set(terms.members)):
        raise ConfigError("the members must be in ascending order, each once")
    if not isfinite(terms.clip_norm):
        raise ConfigError("a clip_norm that is not finite; state about the norm of an honest update")
    if terms.epoch != terms.round // terms.epoch_rounds:
        raise ConfigError(
            f"round {terms.round} in epoch {terms.epoch}; with {terms.epoch_rounds} rounds in an epoch it belongs to "
            f"epoch {terms.round // terms.epoch_rounds}"
        )
    if terms.crowd > len(terms.members):
        raise ConfigError(f"a crowd of {terms.crowd} among {len(terms.members)} members; demand at most all of them")
    if terms.crowd < terms.colluders + 2:
        raise ConfigError(
            f"a crowd of {terms.crowd} with {terms.colluders} colluders hides a client among fewer than two; demand at "
            f"least {terms.colluders + 2}"
        )
    if len({name.strip().casefold() for name in terms.operators}) < 3 or len(set(terms.keys)) < 3:
        raise ConfigError(
            f"server, mixer and judge are run by {', '.join(terms.operators)}; they must be three different operators "
            "with three different keys, since any two of them together see every update"
        )
    if terms.relay == "sketch" and not terms.spot:
        raise ConfigError("sketches without spot checks; check at least one masked row, or use relay = full")
    folding_width(terms.sketch, terms.foldings)
    if 2 * len(terms.members) * STEPS_PER_CLIP >= P:
        raise ConfigError(f"{len(terms.members)} updates of 2^20 steps overflow the field")
    _check_guard(terms)


def lasting(terms: Terms) -> bytes:
    """Return the digest of all that stays the same while a job runs under one policy: everything but the round."""
    return digest(_VERSION, b"lasting", msgspec.msgpack.encode(msgspec.structs.replace(terms, epoch=0, round=0)))


def bind(terms: Terms, roster: Mapping[ClientId, bytes], model: bytes) -> bytes:
    """Return the context: SHA-256 over the terms, the members' Ed25519 keys and the model's SHA-256.

    Keys and model are the caller's own, never what another party claims them to be.
    """
    if len(model) != KEY_BYTES:
        raise ConfigError(f"a model digest of {len(model)} bytes; give SHA-256 of the global model's bytes")
    if missing := [client for client in terms.members if client not in roster]:
        raise ConfigError(f"client {missing[0]} is not on the roster; every member's Ed25519 key must be known")
    keys = (part for client in terms.members for part in (unsigned(client), roster[client]))
    return digest(_VERSION, msgspec.msgpack.encode(terms), *keys, model)


def encoding_of(terms: Terms) -> Encoding:
    """Return how an update becomes integers: its norm is clipped, and a single coordinate may be as large."""
    return Encoding(terms.clip_norm, terms.clip_norm, bits=_ENCODED_BITS, ring=64)


def _check_guard(terms: Terms) -> None:
    if bool(terms.groups) == bool(terms.step):
        raise ConfigError("state either fixed groups or the step of nested sets: one of them limits differences")
    if terms.step == 1:
        raise ConfigError("nested sets that may lose one client at a time open that client; use a step of 2 or more")
    if not terms.groups:
        return
    if any(list(group) != sorted(set(group)) for group in terms.groups) or list(terms.groups) != sorted(terms.groups):
        raise ConfigError("the groups must be in ascending order, and the members of each as well")
    if sorted(client for group in terms.groups for client in group) != list(terms.members):
        raise ConfigError("the groups are not exactly the members; every member belongs to one group")
