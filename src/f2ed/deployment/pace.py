"""How long clients may take: a multiple of what the others need, which a few slow or fast ones cannot move.

Every client counts once per kind of step. The slowest do not count, as many as are assumed malicious, at least one and
a tenth of all: answering just before the deadline does not stretch it for others. A client that was late counts
with the deadline it missed, so if more than those few are late, the deadline grows until they are not.
"""

from collections import deque
from collections.abc import Hashable, Iterable
from math import inf
from threading import Lock
from typing import final

__all__ = ["Pace"]

_KEPT = 3
"""Times of one client that count: the largest of its last few."""
_RECENT = 5
"""Rounds after which a client that was not asked again no longer counts."""


@final
class Pace:
    """Reply times of the last rounds, and the deadlines that follow. May be used from several threads."""

    def __init__(self, *, malicious: int = 0) -> None:
        self._malicious = malicious
        self._round = 0
        self._times: dict[tuple[str, Hashable], deque[float]] = {}
        self._asked: dict[str, dict[Hashable, int]] = {}
        self._lock = Lock()

    def begin_round(self) -> None:
        """Count a round, and forget who was not asked for long."""
        with self._lock:
            self._round += 1
            for asked in self._asked.values():
                for who in [who for who, when in asked.items() if when <= self._round - _RECENT]:
                    del asked[who]

    def ask(self, step: str, clients: Iterable[Hashable]) -> None:
        """Take down who is asked; as long as one has not answered, it counts as slow."""
        with self._lock:
            self._asked.setdefault(step, {}).update(dict.fromkeys(clients, self._round))

    def observe(self, step: str, client: Hashable, seconds: float) -> None:
        """Take down a reply's time, or for one that did not come the deadline that has passed."""
        with self._lock:
            self._times.setdefault((step, client), deque(maxlen=_KEPT)).append(seconds)

    def forget(self, client: Hashable) -> None:
        """Leave out a client that is not asked any more."""
        with self._lock:
            for asked in self._asked.values():
                asked.pop(client, None)
            for place in [place for place in self._times if place[1] == client]:
                del self._times[place]

    def usual(self, step: str) -> float:
        """Return the time within which all but the slowest few answer; infinite while too little is known."""
        with self._lock:
            times = [max(self._times.get((step, who), (inf,))) for who in self._asked.get(step, {})]
        slowest = max(1, self._malicious, len(times) // 10)
        # With as few, attackers that answer at once could set the deadline for the others.
        if len(times) <= slowest + self._malicious:
            return inf
        return sorted(times, reverse=True)[slowest]

    def deadline(self, step: str, *, factor: float, least: float, most: float) -> float:
        """Return how long a reply may take now, in seconds."""
        return min(most, max(least, factor * self.usual(step)))
