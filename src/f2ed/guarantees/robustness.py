"""What holds for n clients, m of them malicious, in p shards (Wang et al. 2021, Corollary 2 and its remark).

Three regions, by the share of shard means that attackers may contaminate:

    share < 1/12         theorem     FilterL2's error is O(sigma·√share), for any attack and any number of parameters
    1/12 ≤ share < 1/2   experience  no theorem; how well an estimator does is measured, attack by attack
    share ≥ 1/2          nothing     honest shard means are no majority, and no estimator can tell which half is honest

In the worst case every malicious client is in its own shard: the share is m/p, and the theorem requires 12·m < p.
The theorem also assumes that honest shard means come from one distribution; larger shards approximate that better.
"""

from numbers import Integral
from typing import final

import msgspec

from f2ed.core.errors import ConfigError
from f2ed.guarantees.contamination import contamination, hypergeometric
from f2ed.records.grading import SHARDS_PER_ATTACKER, Region, region

__all__ = ["Guarantee", "check_counts", "guarantee"]


@final
class Guarantee(msgspec.Struct, frozen=True, kw_only=True):
    """What holds against `malicious` clients; chances are over uniformly random assignments to shards."""

    clients: int
    malicious: int
    shards: int
    region: Region
    """Where the worst case falls; only `theorem` is a guarantee."""
    tolerated: int
    """The most malicious clients with 12·m < p."""
    tolerated_in_paper: int
    """The paper's ⌊p/12⌋ - 1, never below 0: one fewer than `tolerated`, unless 12 divides p."""
    spare_shards: int
    """Shards that may stay closed in a round while 12·m < p still holds; 0 also where it does not hold."""
    crowd: int
    """Members of the smallest shard, ⌊n/p⌋: the server sees no mean over fewer."""
    honest_crowd: int
    """The same if all malicious clients share one shard and help the server; never below 1."""
    worst_share: float
    """m/p, at most 1: the share of contaminated shards when each attacker has its own; an estimator's contamination."""
    expected_share: float
    """The mean share of contaminated shards."""
    likely_contaminated: int
    """The number of contaminated shards that 99% of assignments do not exceed."""
    chance_of_theorem: float
    """That fewer than 1/12 of the shards are contaminated."""
    chance_of_minority: float
    """That fewer than 1/2 of the shards are contaminated."""
    expected_malicious_majority: float
    """The mean share of shards more than half of whose members are malicious."""
    chance_surrounded: float
    """That all other members of an honest client's shard are malicious: with the server they can compute its update."""

    @property
    def holds(self) -> bool:
        """Whether the theorem covers the worst case."""
        return self.region == "theorem"


def guarantee(*, clients: int, malicious: int, shards: int) -> Guarantee:
    """Return what holds for these numbers."""
    check_counts(clients, malicious)
    if not 1 <= shards <= clients:
        raise ConfigError(f"{shards} shards for {clients} clients; choose from 1 to {clients}")
    contaminated = contamination(clients=clients, malicious=malicious, shards=shards)
    crowd = clients // shards
    return Guarantee(
        clients=clients,
        malicious=malicious,
        shards=shards,
        region=region(malicious, shards),
        tolerated=(shards - 1) // SHARDS_PER_ATTACKER,
        tolerated_in_paper=max(0, shards // SHARDS_PER_ATTACKER - 1),
        spare_shards=max(0, shards - SHARDS_PER_ATTACKER * malicious - 1),
        crowd=crowd,
        honest_crowd=max(1, crowd - malicious),
        worst_share=min(1.0, malicious / shards),
        expected_share=contaminated.mean / shards,
        likely_contaminated=contaminated.quantile(0.99),
        chance_of_theorem=contaminated.at_most((shards - 1) // SHARDS_PER_ATTACKER),
        chance_of_minority=contaminated.at_most((shards - 1) // 2),
        expected_malicious_majority=_malicious_majority(clients, malicious, shards),
        chance_surrounded=_surrounded(clients, malicious, shards),
    )


def check_counts(clients: int, malicious: int, **others: object) -> None:
    """Refuse numbers that describe no federation, and others that are not whole."""
    given: dict[str, object] = {"clients": clients, "malicious": malicious, **others}
    for name, found in given.items():
        if found is not None and not isinstance(found, Integral):
            raise ConfigError(f"{name}: expected a whole number (found {found!r})")
    if clients < 1:
        raise ConfigError(f"{clients} clients; there must be at least 1")
    if not 0 <= malicious < clients:
        raise ConfigError(f"{malicious} malicious of {clients} clients; state from 0 to {clients - 1}")


def _sizes(clients: int, shards: int) -> list[tuple[int, int]]:
    """Return (size, how many shards have it)."""
    size, larger = divmod(clients, shards)
    return [(size, shards - larger), (size + 1, larger)]


def _malicious_majority(clients: int, malicious: int, shards: int) -> float:
    return sum(
        number * _chance_above(size // 2, clients, malicious, size)
        for size, number in _sizes(clients, shards)
        if number
    ) / shards  # fmt: skip


def _chance_above(limit: int, population: int, marked: int, draws: int) -> float:
    first, values = hypergeometric(population, marked, draws)
    return float(values[max(0, limit + 1 - first) :].sum())


def _surrounded(clients: int, malicious: int, shards: int) -> float:
    """Average over the places an honest client may get: its shard's other places all go to malicious ones."""
    return sum(
        number * size / clients * _chance_above(size - 2, clients - 1, malicious, size - 1)
        for size, number in _sizes(clients, shards)
        if number
    )
