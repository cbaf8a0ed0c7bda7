"""What a federation has opened, over all rounds, runs and serials of its roster, and what that reveals.

The sums themselves are kept, each once, with the weights they were opened with: a roster that is signed again, a run
that is resumed or a client that left takes nothing back. Groups of former serials count as opened, whether or not this
server led those rounds.
"""

from collections.abc import Iterator
from typing import NamedTuple, final

import msgspec

from f2ed.deployment.roster import Roster
from f2ed.guarantees import LeakMeter, forecast_leak, recovered_cosine
from f2ed.protocol.aggregation import Audit
from f2ed.protocol.sharding import Assignment, ClientId
from f2ed.records import LeakForecast, LeakReading

__all__ = ["OpenedMeter", "OpenedSum", "forecast"]

_DENSE = 1000
_HIDDEN = 2.0
_NOISE = 0.3
"""The part of an update that changes with each round, as `forecast_leak` assumes it."""


class OpenedSum(NamedTuple):
    """A sum that was opened."""

    after: int
    """The number of rounds after which it was known."""
    members: tuple[ClientId, ...]
    weights: tuple[int, ...]

    @classmethod
    def all_of(cls, audit: Audit, roster: Roster, after: int) -> "list[OpenedSum]":
        """Return the sums that a round opened."""
        weights = {entry.id: entry.weight for entry in roster.clients}
        opened = [tuple(sorted(each.survivors)) for each in audit.shards if each.survivors]
        return [cls(after, some, tuple(weights[client] for client in some)) for some in opened]


@final
class OpenedMeter:
    """The leak meter of a deployment. It begins with the former groups and all sums that a checkpoint brings along."""

    def __init__(self, roster: Roster, past: tuple[OpenedSum, ...], rounds: int) -> None:
        former = [OpenedSum(0, group.members, group.weights) for group in roster.history]
        everyone = {client for each in (*former, *past) for client in each.members} | roster.keys.keys()
        self._place = {client: place for place, client in enumerate(sorted(everyone))}
        self._meter = LeakMeter(len(everyone))
        for each in former:
            self._meter.rounds = -1
            self._take([each])
        self._meter.rounds = 0
        for number in range(1, rounds + 1):
            self._take([each for each in past if each.after == number])
        self.sums = past

    def observe(self, opened: list[OpenedSum]) -> LeakReading:
        """Take in a round; return what all of them reveal."""
        if not self._meter.settled:  # Once everyone is determined, no sum can reveal more.
            known = {(each.members, each.weights) for each in self.sums}
            self.sums += tuple(each for each in opened if (each.members, each.weights) not in known)
        self._take(opened)
        return self.reading()

    def reading(self) -> LeakReading:
        """Return what has been revealed so far."""
        meter = self._meter
        return LeakReading(rank=meter.rank, exposed=meter.exposed, first=meter.first, crowd=meter.crowd)

    @property
    def clients(self) -> int:
        """How many clients there ever were."""
        return self._meter.clients

    @property
    def last(self) -> int | None:
        """After how many rounds everyone was determined; None if somebody is not."""
        after = [each for each in self._meter.exposed_after if each is not None]
        return max(after) if self._meter.settled else None

    def _take(self, opened: list[OpenedSum]) -> None:
        """Take in the sums of one round. A client has one weight in all sums that the meter takes in at a time."""
        for part, (weights, some) in enumerate(_alike(opened)):
            sums = [[self._place[client] for client in each.members] for each in some]
            changed = {self._place[client]: weight for client, weight in weights.items() if weight != 1}
            self._meter.observe(sums, changed, more=part > 0)


def _alike(opened: list[OpenedSum]) -> list[tuple[dict[ClientId, int], list[OpenedSum]]]:
    """Return sums in as few parts as they come in which each client has one weight, with these weights."""
    parts: list[tuple[dict[ClientId, int], list[OpenedSum]]] = [({}, [])]
    for each in opened:
        pairs = dict(zip(each.members, each.weights, strict=True))
        if any(parts[-1][0].get(client, weight) != weight for client, weight in pairs.items()):
            parts.append(({}, []))
        parts[-1][0].update(pairs)
        parts[-1][1].append(each)
    return parts


def forecast(roster: Roster, *, rounds: int) -> LeakForecast:
    """Return what the planned rounds would reveal if every shard opened whole, with all former groups."""
    weights = {entry.id: entry.weight for entry in roster.clients}
    meter = OpenedMeter(roster, (), 0)
    for shards in _shards_of_each_round(roster, rounds):
        some = [OpenedSum(0, members, tuple(weights[client] for client in members)) for members in shards]
        found = meter.observe(some)
        if meter.last is not None:
            break
    cosine = _cosine(roster, rounds)
    leaks = found.exposed > 0 or _HIDDEN * cosine**2 > 1
    reading = msgspec.structs.asdict(found)
    del reading["rank"]
    ever = meter.clients if meter.clients > len(roster.clients) else msgspec.UNSET
    return LeakForecast(**reading, last=meter.last, cosine=round(cosine, 4), leaks=leaks, ever=ever)


def _shards_of_each_round(roster: Roster, rounds: int) -> Iterator[tuple[tuple[ClientId, ...], ...]]:
    known: Assignment | None = None
    for number in range(roster.first_round, roster.first_round + rounds):
        if known is None or known.epoch != roster.schedule(number):
            known = roster.whole_assignment(number)
        yield known.shards


def _cosine(roster: Roster, rounds: int) -> float:
    """Return how well the round-invariant component of an update is recovered, on average over those who take part."""
    members = sorted(client for group in roster.groups for client in group.members)
    if len(members) > _DENSE:
        found = forecast_leak(
            clients=len(members), shards=roster.shards, schedule=roster.schedule, rounds=rounds, mode=roster.mode
        )
        return found.cosine
    everyone = sorted({client for group in roster.history for client in group.members} | set(members))
    place = {client: number for number, client in enumerate(everyone)}
    former = [[place[client] for client in group.members] for group in roster.history]
    sums = (
        [*former, *([place[client] for client in shard] for shard in shards)]
        for shards in _shards_of_each_round(roster, rounds)
    )
    return float(recovered_cosine(len(everyone), sums, noise=_NOISE)[[place[client] for client in members]].mean())
