"""What a federation has opened, by the server's own log: a checkpoint that is lost takes nothing back.

The log names the survivors and the weights of every sum. Lines of earlier versions hold no weights; those of the roster
stand in for them.
"""

from collections.abc import Iterable, Mapping

import msgspec

from f2ed.core.errors import ConfigError
from f2ed.deployment.journal import History
from f2ed.deployment.opened import OpenedSum
from f2ed.deployment.roster import Roster
from f2ed.deployment.transparency import Line
from f2ed.deployment.transparency.lines import RoundClosed, ShardOutcome
from f2ed.protocol.sharding import ClientId

__all__ = ["with_logged"]


def with_logged(history: History, lines: Iterable[Line], roster: Roster) -> History:
    """Return a history with all sums that the log names besides. What was spent on noise stays as it is."""
    former = _weights(roster)
    known = {(each.members, each.weights) for each in history.opened}
    added, number = list(history.opened), 0
    for line in lines:
        if not isinstance(line.data, RoundClosed):
            continue
        number += 1
        for shard in line.data.shards:
            pairs = sorted(zip(shard.survivors, _weights_of(shard, former), strict=True))
            each = OpenedSum(number, tuple(client for client, _ in pairs), tuple(weight for _, weight in pairs))
            if pairs and (each.members, each.weights) not in known:
                known.add((each.members, each.weights))
                added.append(each)
    return History(history.ledger, max(history.rounds, number), tuple(added))


def _weights_of(shard: ShardOutcome, former: Mapping[ClientId, int]) -> tuple[int, ...]:
    """Return the weights of a sum: those that it was opened with, whatever the roster says by now."""
    if isinstance(shard.weights, msgspec.UnsetType):
        return tuple(former.get(client, 1) for client in shard.survivors)
    if shard.weights and len(shard.weights) != len(shard.survivors):
        raise ConfigError(
            f"the server's log names {len(shard.survivors)} survivors of a sum and {len(shard.weights)} weights; see "
            "f2ed log verify, and restore the log"
        )
    return shard.weights or (1,) * len(shard.survivors)


def _weights(roster: Roster) -> dict[ClientId, int]:
    """Return the newest weight of everybody who was ever in a group."""
    groups = (pair for group in roster.history for pair in zip(group.members, group.weights, strict=True))
    return dict(groups) | {entry.id: entry.weight for entry in roster.clients}
