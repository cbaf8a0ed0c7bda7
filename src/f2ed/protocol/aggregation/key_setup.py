"""The key set-up of an epoch: in schemes that keep keys, the members of a shard agree on them once.

A round without keys begins with the same agreement. To set up an epoch beforehand is for drivers whose clients drop
out in rounds, but not during key set-up.
"""

from collections.abc import Generator, Mapping, MutableMapping
from functools import partial
from typing import NamedTuple

import msgspec

from f2ed.core.errors import PeerError
from f2ed.protocol.aggregation.audit import Audit
from f2ed.protocol.aggregation.conversation import Conversation, Exchange, lockstep
from f2ed.protocol.aggregation.task import Task, shard_terms
from f2ed.protocol.secagg import Replies, Requests, ShardKeys, Terms, scheme_of
from f2ed.protocol.sharding import Assignment, ClientId

__all__ = ["EpochKeys", "KeySetup", "key_holders", "set_up_keys"]

EpochKeys = MutableMapping[tuple[int, tuple[ClientId, ...]], ShardKeys]
"""Keys by (epoch, members), in schemes that keep keys: they save two steps in later rounds of an epoch."""


class KeySetup(NamedTuple):
    """The keys of an epoch, and what the agreement cost, by shard."""

    keys: EpochKeys
    bytes_up: Mapping[int, int]
    bytes_down: Mapping[int, int]

    def charged_to(self, audit: Audit) -> Audit:
        """Return the audit of an epoch's first round with the cost of the set-up, as when the round itself asks."""
        return msgspec.structs.replace(
            audit,
            shards=tuple(
                msgspec.structs.replace(
                    each,
                    bytes_up=each.bytes_up + self.bytes_up.get(each.shard, 0),
                    bytes_down=each.bytes_down + self.bytes_down.get(each.shard, 0),
                )
                for each in audit.shards
            ),
        )


def key_holders(assignment: Assignment, task: Task) -> frozenset[ClientId]:
    """Return the clients that hold keys of this epoch, and must keep their states between its rounds."""
    return frozenset(client for terms in _keyed(assignment, task) for client in terms.members)


def set_up_keys(exchange: Exchange, assignment: Assignment, task: Task) -> KeySetup:
    """Let the members of each shard agree on keys, where its scheme keeps any; a shard that fails gets none."""
    keys: EpochKeys = {}
    conversations = {
        terms.shard: Conversation(_agreement(terms, task), partial(_remember, keys, terms))
        for terms in _keyed(assignment, task)
    }
    lockstep(exchange, conversations.values())
    return KeySetup(
        keys,
        {shard: each.bytes_up for shard, each in conversations.items()},
        {shard: each.bytes_down for shard, each in conversations.items()},
    )


def _keyed(assignment: Assignment, task: Task) -> list[Terms]:
    return [terms for terms in shard_terms(assignment, task) if scheme_of(terms.mode).keeps_keys]


def _agreement(terms: Terms, task: Task) -> Generator[Requests, Replies, ShardKeys | None]:
    try:
        return (yield from scheme_of(terms.mode).agree_on_keys(terms, task.roster, {}))
    except PeerError:
        return None


def _remember(keys: EpochKeys, terms: Terms, agreed: ShardKeys | None) -> None:
    if agreed is not None:
        keys[terms.epoch, terms.members] = agreed
