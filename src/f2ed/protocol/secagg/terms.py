"""What a shard agrees on before it adds anything, and the 32 bytes that bind every key and signature to it.

A client that receives other terms or another model derives another context, and therefore other masks: its upload
opens nothing.
"""

import struct
from collections.abc import Collection, Mapping
from typing import Annotated, final

import msgspec
from msgspec import Meta

from f2ed.core.errors import ConfigError
from f2ed.protocol.primitives.crypto import KEY_BYTES, digest
from f2ed.protocol.primitives.fields import fields, unsigned
from f2ed.protocol.primitives.hybrid import HYBRID, Agreement
from f2ed.protocol.primitives.ring import Width
from f2ed.protocol.sharding import ClientId

__all__ = ["MAX_MEMBERS", "MIN_CROWD", "Id", "Terms", "bind", "bind_epoch", "place", "torn"]

MAX_MEMBERS = 4096
MIN_CROWD = 3
"""No masked sum of fewer is ever opened: in a sum of two, each member learns the other's update."""
_VERSION = b"f2ed secure aggregation 3"
_MASK_GENERATOR = b"AES-256-CTR"

Id = Annotated[int, Meta(ge=0)]
Count = Annotated[int, Meta(ge=0, le=2**32)]


@final
class Terms(msgspec.Struct, frozen=True, kw_only=True, array_like=True, forbid_unknown_fields=True):
    """The terms of one round in one shard, as the server proposes them and each client checks them."""

    job: Annotated[str, Meta(max_length=256)]
    epoch: Count
    """The epoch of the keys, in schemes that keep keys; it never decreases. It may be shorter than an assignment's."""
    round: Count
    shard: Count
    members: Annotated[tuple[Id, ...], Meta(min_length=1, max_length=MAX_MEMBERS)]
    mode: Annotated[str, Meta(max_length=32)]
    """The name of a registered scheme."""
    threshold: Count
    """t: how many shares rebuild a secret."""
    min_crowd: Count
    """u_min: the smallest number of members whose sum may be opened."""
    colluders: Count = 0
    """c: how many members may collude with the server."""
    length: Annotated[int, Meta(ge=1, le=2**40)]
    """Words in the vector that is added."""
    ring: Width
    bits: Annotated[int, Meta(ge=2, le=48)]
    clip_value: Annotated[float, Meta(ge=1e-30, le=1e30)]
    clip_norm: Annotated[float, Meta(gt=0)]
    weights: Annotated[tuple[Annotated[int, Meta(ge=1)], ...], Meta(max_length=MAX_MEMBERS)] = ()
    """One public weight per member, or none at all for equal weights."""
    weight_cap: Annotated[int, Meta(ge=1, le=2**40)] = 1
    noise: Annotated[float, Meta(ge=0, le=1e6)] = 0.0
    """Standard deviation of the noise in the sum, as a multiple of the longest encoded update; 0 for none."""
    carriers: Annotated[int, Meta(ge=1, le=MAX_MEMBERS)] = 1
    """How many members' noise adds up to it: each adds 1/√carriers of it."""
    groups: Annotated[
        tuple[Annotated[tuple[Id, ...], Meta(min_length=1, max_length=MAX_MEMBERS)], ...],
        Meta(max_length=MAX_MEMBERS),
    ] = ()
    """The members in groups, of which every opened sum takes all or none; empty if everyone is their own group."""
    agreement: Agreement = HYBRID
    """How two members agree on a secret."""

    def weight(self, client: ClientId) -> int:
        """Return a member's public weight; with equal weights everyone has the cap, which is 1."""
        return self.weights[self.members.index(client)] if self.weights else self.weight_cap


def torn(terms: Terms, clients: Collection[ClientId]) -> frozenset[ClientId]:
    """Return those of these clients who lack a member of their group: no opened sum may contain them."""
    there = frozenset(clients)
    return frozenset(client for group in terms.groups if not there.issuperset(group) for client in group) & there


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
        _VERSION,
        b"round",
        *_who(terms, roster),
        unsigned(terms.round),
        *map(unsigned, (terms.threshold, terms.min_crowd, terms.colluders)),
        *map(unsigned, (terms.length, terms.ring, terms.bits)),
        struct.pack(">dd", terms.clip_value, terms.clip_norm),
        unsigned(terms.weight_cap),
        unsigned(len(terms.weights)),
        *map(unsigned, terms.weights),
        struct.pack(">d", terms.noise),
        unsigned(terms.carriers),
        unsigned(len(terms.groups)),
        *(fields(*map(unsigned, group)) for group in terms.groups),
        _MASK_GENERATOR,
        model,
    )


def bind_epoch(terms: Terms, roster: Mapping[ClientId, bytes], since: int) -> bytes:
    """Return the context of an epoch's keys, which outlive a round and a model; they were made in round `since`."""
    return digest(_VERSION, b"epoch", *_who(terms, roster), unsigned(since))


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
        terms.agreement.encode(),
    )
