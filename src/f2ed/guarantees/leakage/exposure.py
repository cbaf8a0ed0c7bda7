"""Which clients the sums of many rounds determine: the exact half of the leak meter, round by round.

Every opened sum is a linear equation in the clients' updates, as far as these stay the same. Clients that were always
opened together, with weights in the same proportion, are one unknown, which splits when a sum takes some of them and
leaves others. What has no sum in common is solved separately. So fixed shards cost nearly nothing, and resharding each
round about n³ operations in all: after some n/p assignments everything is known, and further rounds are free.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import final

import msgspec
import numpy as np

from f2ed.guarantees.leakage.rowspace import PRIME, RowSpace

__all__ = ["Exposure", "LeakMeter", "Sums", "exposure"]

Sums = Sequence[Collection[int]]
"""The sets of clients whose sums were opened in one round; clients are numbered from 0."""

_Sum = tuple[int, ...]
_Factors = dict[int, int]
"""By how much a client counts more than when it was first seen, modulo the prime; 1 if it is left out."""


@final
class Exposure(msgspec.Struct, frozen=True, kw_only=True):
    """What the sums of several rounds determine; a round number means "after this many rounds", so it counts from 1."""

    clients: int
    ranks: tuple[int, ...]
    """Independent equations after each round."""
    exposed_after: tuple[int | None, ...]
    """For each client, after how many rounds its own update is determined; None if it never is."""
    crowd: int
    """The size of the smallest group whose sum is determined, counting groups that were always opened together."""

    @property
    def exposed(self) -> int:
        """How many clients are determined in the end."""
        return sum(after is not None for after in self.exposed_after)

    @property
    def first(self) -> int | None:
        """After how many rounds the first client is determined."""
        return min((after for after in self.exposed_after if after is not None), default=None)

    @property
    def last(self) -> int | None:
        """After how many rounds the last client is determined; None if some never are."""
        if self.exposed < self.clients:
            return None
        return max((after for after in self.exposed_after if after is not None), default=None)


def exposure(clients: int, rounds: Iterable[Sums]) -> Exposure:
    """Compute exactly which clients the sums of these rounds determine, and since when."""
    meter = LeakMeter(clients)
    ranks = []
    for sums in rounds:
        meter.observe(sums)
        ranks.append(meter.rank)
    return Exposure(clients=clients, ranks=tuple(ranks), exposed_after=tuple(meter.exposed_after), crowd=meter.crowd)


@final
class LeakMeter:
    """Takes in one round after another. With 10,000 clients resharded each round it needs about 1 GiB."""

    def __init__(self, clients: int) -> None:
        self.clients = clients
        self.rounds = 0
        self.rank = 0
        """Independent equations so far."""
        self.crowd = clients
        """The smallest group whose sum is determined so far."""
        self.exposed_after: list[int | None] = [None] * clients
        """For each client, after how many rounds its own update was determined."""
        self._seen: set[tuple[_Sum, tuple[int, ...]]] = set()
        self._weights: dict[int, int] = {}
        """The weight with which a client was first seen, if it was not 1."""
        self._part_of: dict[int, _Part] = {}

    @property
    def settled(self) -> bool:
        """Whether every client is determined, so that no round can reveal more."""
        return self.rank == self.clients

    @property
    def exposed(self) -> int:
        """How many clients are determined so far."""
        return self.clients - self.exposed_after.count(None)

    @property
    def first(self) -> int | None:
        """After how many rounds the first of them was."""
        return min((after for after in self.exposed_after if after is not None), default=None)

    def observe(self, sums: Sums, weights: Mapping[int, int] | None = None, *, more: bool = False) -> None:
        """Take in the sums that one more round opened, in which each client had this weight, or 1.

        `more` are further sums of the round before, in which clients had other weights.
        """
        self.rounds += not more
        if self.settled:
            return
        factors = self._factors(sums, weights or {})
        opened = {tuple(sorted(some)) for some in sums}
        fresh = sorted(some for some in opened if some and _key(some, factors) not in self._seen)
        self.crowd = min([self.crowd, *map(len, fresh)])
        for part, rows in self._clusters(fresh):
            before = part.space.rank
            if not part.take(rows, factors):
                continue
            self.rank += part.space.rank - before
            if not part.settled:
                self._seen.update(_key(some, factors) for some in rows)
            sizes, single = part.sizes(), part.space.single()
            self.crowd = min(self.crowd, int(sizes[single].min(initial=self.crowd)))
            for column in np.flatnonzero(single & (sizes == 1)):
                (client,) = part.groups[column]
                if self.exposed_after[client] is None:
                    self.exposed_after[client] = self.rounds

    def _factors(self, sums: Sums, weights: Mapping[int, int]) -> _Factors:
        """Return how the weights of this round differ from the first ones."""
        if not weights and not self._weights:
            return {}
        factors: _Factors = {}
        for client in {client for some in sums for client in some}:
            now = weights.get(client, 1)
            first = self._weights.get(client, 1 if client in self._part_of else now)
            if first != 1:
                self._weights[client] = first
            if now != first:
                factors[client] = now * pow(first, -1, PRIME) % PRIME
        return factors

    def _clusters(self, fresh: list[_Sum]) -> "list[tuple[_Part, list[_Sum]]]":
        """Join the parts that the sums connect; return each part with its sums."""
        leader: dict[int, int] = {}

        def root(place: int) -> int:
            while leader.setdefault(place, place) != place:
                leader[place] = place = leader[leader[place]]
            return place

        # Clients of one part are one place, that of its first client; so are those of one sum.
        for some in fresh:
            for client in some:
                part = self._part_of.get(client)
                leader[root(client if part is None else part.groups[0][0])] = root(some[0])
        rows: dict[int, list[_Sum]] = {}
        for some in fresh:
            rows.setdefault(root(some[0]), []).append(some)
        return [(self._joined(several), several) for several in rows.values()]

    def _joined(self, sums: list[_Sum]) -> "_Part":
        clients = {client for some in sums for client in some}
        parts = list({id(part): part for client in clients if (part := self._part_of.get(client))}.values())
        if newcomers := sorted(client for client in clients if client not in self._part_of):
            parts.append(_Part(RowSpace(1), [newcomers]))
        whole = parts[0]
        if len(parts) > 1:
            whole = _Part(RowSpace.joined([part.space for part in parts]), [g for part in parts for g in part.groups])
        for group in whole.groups if len(parts) > 1 or newcomers else ():
            self._part_of.update(dict.fromkeys(group, whole))
        return whole


@final
class _Part:
    """Clients that are connected by sums: in groups that were always opened together, one column for each."""

    def __init__(self, space: RowSpace, groups: list[list[int]]) -> None:
        self.space = space
        self.groups = groups
        self._column = {client: column for column, group in enumerate(groups) for client in group}

    @property
    def settled(self) -> bool:
        """Whether every group is determined, so that only a split could reveal more."""
        return self.space.rank == self.space.columns

    def sizes(self) -> "np.ndarray[tuple[int], np.dtype[np.int64]]":
        return np.fromiter(map(len, self.groups), np.int64, len(self.groups))

    def take(self, sums: list[_Sum], factors: _Factors) -> bool:
        """Take in sums; return whether they may have revealed anything."""
        where: dict[int, list[int]] = {}
        for place, some in enumerate(sums):
            for client in some:
                where.setdefault(client, []).append(place)
        split = self._split(where, factors)
        if self.settled and not split:
            return False
        if factors:
            self.space.add([{self._column[client]: factors.get(client, 1) for client in some} for some in sums])
        else:
            self.space.add([{self._column[client] for client in some} for some in sums])
        return True

    def _split(self, where: dict[int, list[int]], factors: _Factors) -> bool:
        """Part the groups by the sums that their members are in, and by their weights there."""
        kinds: dict[int, dict[tuple[int, ...], list[int]]] = {}
        for client, places in where.items():
            kind = (*places, -factors.get(client, 1))
            kinds.setdefault(self._column[client], {}).setdefault(kind, []).append(client)
        origins: list[int] = []
        for column, several in kinds.items():
            apart = list(several.values())
            left = len(self.groups[column]) - sum(map(len, apart))
            # One kind keeps the column: those that are in no sum, or else any.
            if left:
                moved = {client for some in apart for client in some}
                self.groups[column] = [client for client in self.groups[column] if client not in moved]
            else:
                self.groups[column] = apart.pop()
            for some in apart:
                for client in some:
                    self._column[client] = len(self.groups)
                self.groups.append(some)
                origins.append(column)
        if origins:
            self.space.split(origins)
        return bool(origins)


def _key(some: _Sum, factors: _Factors) -> tuple[_Sum, tuple[int, ...]]:
    return some, tuple(factors.get(client, 1) for client in some) if factors else ()
