"""The key set-up of an epoch: where the scheme keeps keys, shard members agree on them once per epoch.

All clients take part in a set-up; dropouts happen in rounds, not during key setup. A round that is repeated, as after
an interruption, gets a set-up of its own, since no member begins a round twice under one key.
"""

from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from f2ed.protocol.aggregation import Audit, EpochKeys, Task, shard_terms
from f2ed.protocol.secagg import scheme_of
from f2ed.protocol.sharding import Assignment
from f2ed.simulation.transport import MemoryExchange, SimulatedClients

__all__ = ["EpochSetup", "set_up_epoch", "with_cost"]


class EpochSetup(NamedTuple):
    """What the server keeps for the rounds of an epoch."""

    keys: EpochKeys
    bytes_up: Mapping[int, int]
    """What the set-up cost, by shard."""
    bytes_down: Mapping[int, int]


def set_up_epoch(clients: SimulatedClients, exchange: MemoryExchange, assignment: Assignment, task: Task) -> EpochSetup:
    """Let the members of each shard agree on keys, if their scheme keeps any."""
    shards = [terms for terms in shard_terms(assignment, task) if scheme_of(terms.mode).keeps_keys]
    clients.begin_epoch(client for terms in shards for client in terms.members)
    servers = [scheme_of(terms.mode).agree_on_keys(terms, task.roster, {}) for terms in shards]
    asked = [next(server) for server in servers]
    replies = dict(exchange({client: request for each in asked for client, request in each.items()}))
    keys: EpochKeys = {}
    for terms, server in zip(shards, servers, strict=True):
        try:
            server.send({client: replies[client] for client in terms.members})
        except StopIteration as stop:
            keys[terms.epoch, terms.members] = stop.value
    return EpochSetup(
        keys,
        {terms.shard: sum(len(replies[client]) for client in terms.members) for terms in shards},
        {terms.shard: sum(map(len, requests.values())) for terms, requests in zip(shards, asked, strict=True)},
    )


def with_cost(audit: Audit, setup: EpochSetup) -> Audit:
    """Return the audit of an epoch's first round with the cost of the set-up added, as in a deployment."""
    return msgspec.structs.replace(
        audit,
        shards=tuple(
            msgspec.structs.replace(
                each,
                bytes_up=each.bytes_up + setup.bytes_up.get(each.shard, 0),
                bytes_down=each.bytes_down + setup.bytes_down.get(each.shard, 0),
            )
            for each in audit.shards
        ),
    )
