"""What a shard agrees on before it adds anything, and the 32 bytes that bind every key and signature to it.

A client that was told other terms, or given another model, derives another context, and with it other masks:
its upload then opens nothing.
"""

import struct
from collections.abc import Mapping
from math import isfinite
from typing import Annotated, Literal, final

import msgspec
from msgspec import Meta

from f2ed.core.errors import ConfigError
from f2ed.protocol.primitives.crypto import KEY_BYTES, digest
from f2ed.protocol.primitives.fields import unsigned
from f2ed.protocol.primitives.ring import Width, largest_bits
from f2ed.protocol.sharding import ClientId

__all__ = ["MOST_MEMBERS", "Mode", "Terms", "bind", "bind_epoch", "check", "place", "quorum"]

VERSION = b"f2ed secure aggregation 1"
PRG = b"AES-256-CTR"
MOST_MEMBERS = 4096

Mode = Literal["all-or-nothing", "dropout-tolerant", "clear"]
Id = Annotated[int, Meta(ge=0)]
Count = Annotated[int, Meta(ge=0, le=2**32)]


@final
class Terms(msgspec.Struct, frozen=True, kw_only=True, array_like=True, forbid_unknown_fields=True):
    """The terms of one round in one shard, as the server proposes them and each client checks them."""

    job: Annotated[str, Meta(max_length=128)]
    epoch: Count
    """Of the keys in all-or-nothing mode; never goes back. It may be shorter than the epoch of a deal."""
    round: Count
    shard: Count
    members: Annotated[tuple[Id, ...], Meta(min_length=1, max_length=MOST_MEMBERS)]
    mode: Mode
    threshold: Count
    """t: how many shares rebuild a secret."""
    min_crowd: Count
    """u_min: the smallest number of members whose sum may be opened."""
    colluders: Count = 0
    """c: how many members may work with the server."""
    consistent: bool = True
    """Whether the members confirm to each other who is alive before they unmask."""
    length: Annotated[int, Meta(ge=1, le=2**40)]
    """Words in the vector that is added."""
    ring: Width
    bits: Annotated[int, Meta(ge=2, le=48)]
    clip_value: Annotated[float, Meta(ge=1e-30, le=1e30)]
    clip_norm: Annotated[float, Meta(gt=0)]
    weights: Annotated[tuple[Annotated[int, Meta(ge=1)], ...], Meta(max_length=MOST_MEMBERS)] = ()
    """One public weight per member, or none at all for equal weights."""
    weight_cap: Annotated[int, Meta(ge=1, le=2**40)] = 1
    noise: Annotated[float, Meta(ge=0, le=1e6)] = 0.0
    """Standard deviation of the noise in the sum, as a multiple of the longest encoded update; 0 for none."""
    carriers: Annotated[int, Meta(ge=1, le=MOST_MEMBERS)] = 1
    """By how many members' noise the sum reaches it: each adds 1/√carriers of it."""

    def weight(self, client: ClientId) -> int:
        """Return a member's public weight; with equal weights everyone has the cap, which is 1."""
        return self.weights[self.members.index(client)] if self.weights else self.weight_cap


def quorum(mode: Mode, members: int, colluders: int = 0) -> tuple[int, int]:
    """Return the smallest (threshold, min_crowd) that `check` accepts."""
    if mode == "clear":
        return 1, 1
    if mode == "all-or-nothing":
        return members, members
    threshold = (members + colluders) // 2 + 1
    return threshold, max(threshold, 3, colluders + 2)


def check(terms: Terms) -> None:
    """Raise `ConfigError` for terms under which a member could be singled out, or a sum could wrap around."""
    count = len(terms.members)
    if list(terms.members) != sorted(set(terms.members)):
        raise ConfigError("the members must be in ascending order, each once")
    if terms.bits > (most := largest_bits(terms.ring, count)):
        raise ConfigError(
            f"{count} terms of {terms.bits} bits overflow a {terms.ring}-bit sum; use at most {most} bits"
        )
    _check_weights(terms)
    _check_noise(terms)
    if terms.mode != "clear":
        _check_quorum(terms, count)
        _check_balance(terms)


def _check_weights(terms: Terms) -> None:
    if not terms.weights:
        if terms.weight_cap != 1:
            raise ConfigError(f"a weight cap of {terms.weight_cap} without weights; leave it at 1")
        return
    if len(terms.weights) != len(terms.members):
        raise ConfigError(f"{len(terms.weights)} weights for {len(terms.members)} members; give one each")
    if (heaviest := max(terms.weights)) > terms.weight_cap:
        raise ConfigError(f"a weight of {heaviest} above the cap of {terms.weight_cap}; cap the weights first")


def _check_noise(terms: Terms) -> None:
    """Refuse noise that the smallest sum that may be opened would not have."""
    if not terms.noise:
        if terms.carriers != 1:
            raise ConfigError(f"{terms.carriers} members to carry noise, and no noise; leave it at 1")
        return
    if not isfinite(terms.clip_norm):
        raise ConfigError("noise without an L2 clip; set clip_norm to about the norm of an honest update")
    honest = len(terms.members) if terms.mode == "clear" else terms.min_crowd - terms.colluders
    if terms.carriers > honest:
        raise ConfigError(
            f"noise that takes {terms.carriers} members, and a sum of {terms.min_crowd} with {terms.colluders} "
            f"colluders may be opened; let at most {honest} carry it"
        )


def _check_quorum(terms: Terms, count: int) -> None:
    least, _ = quorum(terms.mode, count, terms.colluders)
    if not least <= terms.threshold <= count:
        raise ConfigError(
            f"a threshold of {terms.threshold} for {count} members of whom {terms.colluders} collude; "
            f"it must be from {least} to {count}"
        )
    fewest = max(terms.threshold, 3, terms.colluders + 2)
    if not fewest <= terms.min_crowd <= count:
        raise ConfigError(
            f"sums of {terms.min_crowd} may be opened among {count} members; it must take {fewest} or more to hide "
            f"one among honest others, and no more than there are"
        )
    lenient = 10 * terms.threshold < 7 * count or 10 * terms.min_crowd < 8 * count
    if terms.mode == "dropout-tolerant" and not terms.consistent and lenient:
        raise ConfigError(
            f"the consistency step is skipped with threshold {terms.threshold} and {terms.min_crowd} survivors of "
            f"{count}; without it a server can open smaller sums unless these are 0.7 and 0.8 of the members"
        )


def _check_balance(terms: Terms) -> None:
    """Refuse weights under which a sum that may be opened is mostly one member: the others would not hide it."""
    if not terms.weights:
        return
    *others, heaviest = sorted(terms.weights)
    if heaviest > (company := sum(others[: terms.min_crowd - 1 - terms.colluders])):
        raise ConfigError(
            f"a member of weight {heaviest} may be opened with honest others who weigh {company} in all; "
            "lower the cap until nobody outweighs those it hides among"
        )


def place(terms: Terms, client: ClientId) -> int:
    """Return where a member's Shamir shares are evaluated: 1, 2, … in the order of the ids."""
    return terms.members.index(client) + 1


def bind(terms: Terms, roster: Mapping[ClientId, bytes], model: bytes) -> bytes:
    """Return the context of a round: SHA-256 over all of the terms, the members' keys and the model's SHA-256.

    Keys and model are the caller's own, never what the other party claims them to be.
    """
    if len(model) != KEY_BYTES:
        raise ConfigError(f"a model digest of {len(model)} bytes; give SHA-256 of the global model's bytes")
    return digest(
        VERSION,
        b"round",
        *_who(terms, roster),
        unsigned(terms.round),
        *map(unsigned, (terms.threshold, terms.min_crowd, terms.colluders, terms.consistent)),
        *map(unsigned, (terms.length, terms.ring, terms.bits)),
        struct.pack(">dd", terms.clip_value, terms.clip_norm),
        unsigned(terms.weight_cap),
        unsigned(len(terms.weights)),
        *map(unsigned, terms.weights),
        struct.pack(">d", terms.noise),
        unsigned(terms.carriers),
        PRG,
        model,
    )


def bind_epoch(terms: Terms, roster: Mapping[ClientId, bytes]) -> bytes:
    """Return the context of an epoch's keys, which outlive a round and a model."""
    return digest(VERSION, b"epoch", *_who(terms, roster))


def _who(terms: Terms, roster: Mapping[ClientId, bytes]) -> tuple[bytes, ...]:
    if missing := [client for client in terms.members if client not in roster]:
        raise ConfigError(f"client {missing[0]} is not on the roster; every member's Ed25519 key must be known")
    keys = (part for client in terms.members for part in (unsigned(client), roster[client]))
    return (
        terms.job.encode(),
        unsigned(terms.epoch),
        unsigned(terms.shard),
        unsigned(len(terms.members)),
        *keys,
        terms.mode.encode(),
    )
