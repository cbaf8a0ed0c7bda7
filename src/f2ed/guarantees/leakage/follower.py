"""The leak meter of a run or a deployment: a reading after each round of what was actually opened."""

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import NamedTuple, final

from f2ed.guarantees.leakage.exposure import LeakMeter
from f2ed.protocol.sharding import Assignment, ClientId
from f2ed.records import LeakReading

__all__ = ["LeakFollower", "Unopened"]


class Unopened(NamedTuple):
    """What a round did not open: shards that stayed closed, and clients missing from the others."""

    closed: tuple[int, ...] = ()
    dropped: tuple[ClientId, ...] = ()

    @classmethod
    def of(cls, assignment: Assignment, opened: Mapping[int, Collection[ClientId]]) -> "Unopened":
        """Return what is missing where each of the `opened` shards was opened as the sum of these survivors."""
        dropped = (
            client for number in sorted(opened) for client in assignment.shards[number] if client not in opened[number]
        )
        return cls(tuple(n for n in range(len(assignment.shards)) if n not in opened), tuple(dropped))

    def sums(self, assignment: Assignment) -> list[tuple[ClientId, ...]]:
        """Return the sets of clients whose sums the round did open."""
        dropped, closed = set(self.dropped), set(self.closed)
        return [
            tuple(client for client in members if client not in dropped)
            for number, members in enumerate(assignment.shards)
            if number not in closed
        ]


@final
class LeakFollower:
    """Reads the meter after each round. A history that does not continue the last one is taken in from its start."""

    def __init__(
        self,
        assignment: Callable[[int], Assignment],
        clients: Iterable[ClientId],
        weights: Mapping[ClientId, int] | None = None,
    ) -> None:
        """Take the assignment of each round, which counts from 0, all clients that it may assign, and their weights."""
        self._assignment = assignment
        self._index = {client: index for index, client in enumerate(sorted(clients))}
        self._weights = None if weights is None else {self._index[client]: weight for client, weight in weights.items()}
        self._meter = LeakMeter(len(self._index))
        self._past: tuple[Unopened, ...] = ()

    def __call__(self, rounds: tuple[Unopened, ...]) -> LeakReading:
        """Return the reading after these rounds."""
        known = len(self._past)
        if rounds[:known] != self._past:
            self._meter, known = LeakMeter(len(self._index)), 0
        for number in range(known, len(rounds)):
            sums = rounds[number].sums(self._assignment(number))
            self._meter.observe([[self._index[client] for client in some] for some in sums], self._weights)
        self._past = rounds
        meter = self._meter
        return LeakReading(rank=meter.rank, exposed=meter.exposed, first=meter.first, crowd=meter.crowd)
