"""The set-up of an epoch: members of all-or-nothing shards agree on keys once, for as long as they stay together.

Everyone takes part in a set-up; who falls silent falls silent in rounds. A round that comes again, as after an
interruption, gets a set-up of its own, since no member begins a round twice under one key.
"""

from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from f2ed.protocol.aggregation import Audit, EpochKeys, Task, shard_terms
from f2ed.protocol.secagg import scheme_of
from f2ed.protocol.sharding import Assignment
from f2ed.simulation.transport import Clients, Round

__all__ = ["SetUp", "set_up", "with_cost"]


class SetUp(NamedTuple):
    """What the server keeps for the rounds of an epoch."""

    keys: EpochKeys
    bytes_up: Mapping[int, int]
    """By shard, as are those down: what the set-up cost."""
    bytes_down: Mapping[int, int]


def set_up(clients: Clients, exchange: Round, plan: Assignment, task: Task) -> SetUp:
    """Let the members of each all-or-nothing shard agree on keys; other shards need none."""
    shards = [terms for terms in shard_terms(plan, task) if scheme_of(terms.mode).keeps_keys]
    clients.begin_epoch(client for terms in shards for client in terms.members)
    leaders = [scheme_of(terms.mode).agree_on_keys(terms, task.roster, {}) for terms in shards]
    asked = [next(leader) for leader in leaders]
    replies = dict(exchange({client: request for each in asked for client, request in each.items()}))
    keys: EpochKeys = {}
    for terms, leader in zip(shards, leaders, strict=True):
        try:
            leader.send({client: replies[client] for client in terms.members})
        except StopIteration as stop:
            keys[terms.epoch, terms.members] = stop.value
    return SetUp(
        keys,
        {terms.shard: sum(len(replies[client]) for client in terms.members) for terms in shards},
        {terms.shard: sum(map(len, requests.values())) for terms, requests in zip(shards, asked, strict=True)},
    )


def with_cost(audit: Audit, agreed: SetUp) -> Audit:
    """Return the audit of an epoch's first round with what the set-up cost, as a deployment has it."""
    return msgspec.structs.replace(
        audit,
        shards=tuple(
            msgspec.structs.replace(
                each,
                bytes_up=each.bytes_up + agreed.bytes_up.get(each.shard, 0),
                bytes_down=each.bytes_down + agreed.bytes_down.get(each.shard, 0),
            )
            for each in audit.shards
        ),
    )
