"""Which clients the sums of many rounds determine: the exact half of the leak meter, round by round.

Every opened sum is a linear equation in the clients' updates, as far as these stay the same. Clients that were always
opened together are one unknown, which splits when a sum takes some of them and leaves others. What has no sum in common
is solved separately. So fixed shards cost nearly nothing, and resharding each round about n³ operations in all: after
some n/p assignments everything is known, and further rounds are free.
"""

from collections.abc import Collection, Iterable, Sequence
from typing import final

import msgspec
import numpy as np

from f2ed.guarantees.leakage.rowspace import RowSpace

__all__ = ["Exposure", "LeakMeter", "Sums", "exposure"]

Sums = Sequence[Collection[int]]
"""The sets of clients whose sums were opened in one round; clients are numbered from 0."""

_Sum = tuple[int, ...]


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
        self._seen: set[_Sum] = set()
        self._part_of: dict[int, _Part] = {}

    @property
    def exposed(self) -> int:
        """How many clients are determined so far."""
        return self.clients - self.exposed_after.count(None)

    @property
    def first(self) -> int | None:
        """After how many rounds the first of them was."""
        return min((after for after in self.exposed_after if after is not None), default=None)

    def observe(self, sums: Sums) -> None:
        """Take in the sums that one more round opened."""
        self.rounds += 1
        if self.rank == self.clients:
            return
        opened = {tuple(sorted(some)) for some in sums}
        fresh = sorted(some for some in opened - self._seen if some)
        self.crowd = min([self.crowd, *map(len, fresh)])
        for part, rows in self._clusters(fresh):
            before = part.space.rank
            if not part.take(rows):
                continue
            self.rank += part.space.rank - before
            if not part.settled:
                self._seen.update(rows)
            sizes, single = part.sizes(), part.space.single()
            self.crowd = min(self.crowd, int(sizes[single].min(initial=self.crowd)))
            for column in np.flatnonzero(single & (sizes == 1)):
                (client,) = part.groups[column]
                if self.exposed_after[client] is None:
                    self.exposed_after[client] = self.rounds

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

    def take(self, sums: list[_Sum]) -> bool:
        """Take in sums; return whether they may have revealed anything."""
        where: dict[int, list[int]] = {}
        for place, some in enumerate(sums):
            for client in some:
                where.setdefault(client, []).append(place)
        split = self._split(where)
        if self.settled and not split:
            return False
        self.space.add([{self._column[client] for client in some} for some in sums])
        return True

    def _split(self, where: dict[int, list[int]]) -> bool:
        """Part the groups by the sums that their members are in."""
        kinds: dict[int, dict[tuple[int, ...], list[int]]] = {}
        for client, places in where.items():
            kinds.setdefault(self._column[client], {}).setdefault(tuple(places), []).append(client)
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
