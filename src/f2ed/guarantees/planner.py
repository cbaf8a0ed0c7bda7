"""The planner: from the assumed attackers and the wanted crowd to the number of shards, or to what must change.

Against m malicious clients the theorem requires p ≥ 12·m + 1 shards; a min_crowd of c requires p ≤ ⌊n/c⌋. Between
these two ends the theorem's error is constant: a shard of n/p clients shrinks the variance by p/n, the share m/p
falls as 1/p, and sigma·√(m/n) remains. So the planner takes p near √(lowest·highest), which exceeds both
requirements by the same factor.
"""

import math
from typing import final

import msgspec

from f2ed.core.errors import ConfigError
from f2ed.guarantees.plan_text import count, verdict, why, why_none
from f2ed.guarantees.robustness import Guarantee, check_counts, guarantee
from f2ed.guarantees.small_consortium import small_consortium
from f2ed.records.grading import SHARDS_PER_ATTACKER

__all__ = ["Change", "ShardPlan", "plan_shards"]

# How far from the even split the planner goes to make all shards equally large.
_REACH = 1.25


@final
class Change(msgspec.Struct, frozen=True, kw_only=True):
    """A change of one number that makes both conditions hold."""

    setting: str
    value: int
    shards: int
    """The number of shards with which it then holds."""
    text: str


@final
class ShardPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What the planner found."""

    clients: int
    malicious: int
    min_crowd: int
    """The smallest crowd wanted; where none was given, the one that the judged number of shards gives."""
    lowest: int
    """The smallest number of shards for which the theorem covers the malicious clients."""
    highest: int
    """The largest number of shards with that crowd in each; none is feasible where it is below `lowest`."""
    choice: Guarantee | None
    """What holds for the judged number of shards, or else for the recommended one; `None` if none is feasible."""
    judged: bool
    """Whether the caller gave the number of shards."""
    recommended: int | None
    ok: bool
    """Whether the choice is covered by the theorem and hides everyone in the crowd."""
    verdict: str
    why: tuple[str, ...]
    options: tuple[Guarantee, ...]
    """A few feasible numbers of shards from lowest to highest, the recommended one among them."""
    changes: tuple[Change, ...]
    """The nearest numbers that work, each by itself; empty where nothing must change."""
    small: tuple[str, ...] = ()
    """What so few clients can have with shards at all; empty for more than a small consortium."""

    @property
    def feasible(self) -> range:
        """All numbers of shards that give both protections."""
        return range(self.lowest, self.highest + 1)


def plan_shards(*, clients: int, malicious: int, min_crowd: int | None = None, shards: int | None = None) -> ShardPlan:
    """Recommend a number of shards, or judge the one given.

    `malicious` is the number of attackers to assume, `min_crowd` the smallest number of clients whose mean the server
    may see.
    """
    check_counts(clients, malicious, min_crowd=min_crowd, shards=shards)
    wanted = _crowd(clients, min_crowd, shards)
    lowest, highest = SHARDS_PER_ATTACKER * malicious + 1, clients // wanted
    recommended = _recommend(clients, lowest, highest)
    number = recommended if shards is None else shards
    choice = None if number is None else guarantee(clients=clients, malicious=malicious, shards=number)
    ok = choice is not None and choice.holds and choice.crowd >= wanted
    return ShardPlan(
        clients=clients,
        malicious=malicious,
        min_crowd=wanted,
        lowest=lowest,
        highest=highest,
        choice=choice,
        judged=shards is not None,
        recommended=recommended,
        ok=ok,
        verdict=verdict(choice, wanted),
        why=why_none(clients, malicious, wanted) if choice is None else why(choice, recommended, judged=bool(shards)),
        options=tuple(
            guarantee(clients=clients, malicious=malicious, shards=p) for p in _ladder(lowest, highest, recommended)
        ),
        changes=() if ok else _changes(clients, malicious, wanted, shards),
        small=small_consortium(clients) if malicious else (),
    )


def _crowd(clients: int, min_crowd: int | None, shards: int | None) -> int:
    if shards is not None and not 1 <= shards <= clients:
        raise ConfigError(f"{shards} shards for {clients} clients; choose from 1 to {clients}")
    if min_crowd is not None and not 1 <= min_crowd <= clients:
        raise ConfigError(f"a crowd of {min_crowd} from {clients} clients; ask for 1 to {clients}")
    if min_crowd is not None:
        return min_crowd
    if shards is None:
        raise ConfigError("nothing to plan for; give min_crowd, or the number of shards to judge")
    return clients // shards


def _recommend(clients: int, lowest: int, highest: int) -> int | None:
    if lowest > highest:
        return None
    if lowest == 1:
        return 1
    balance = math.sqrt(lowest * highest)
    near = range(max(lowest, math.ceil(balance / _REACH)), min(highest, math.floor(balance * _REACH)) + 1)
    equal = [shards for shards in near if clients % shards == 0]
    # Equal shards give every client the same weight in the mean over shards.
    return min(equal, key=lambda shards: abs(math.log(shards / balance)), default=max(lowest, math.floor(balance)))


def _ladder(lowest: int, highest: int, recommended: int | None) -> list[int]:
    """Return up to six feasible numbers, evenly spread in ratio."""
    if recommended is None:
        return []
    steps = (lowest * (highest / lowest) ** (step / 4) for step in range(5))
    return sorted({round(step) for step in steps} | {recommended})


def _changes(clients: int, malicious: int, min_crowd: int, shards: int | None) -> tuple[Change, ...]:
    """Return changes of one number at a time, as small as possible."""
    lowest, highest = SHARDS_PER_ATTACKER * malicious + 1, clients // min_crowd
    found = []
    if lowest <= highest:
        # Only a judged number comes here: another one gives both.
        near = min(max(lowest, shards or 0), highest)
        found.append(Change(setting="shards", value=near, shards=near, text=f"use {_between(lowest, highest)} shards"))
    else:
        spread = min(shards or highest, highest)
        fewer, smaller, more = (spread - 1) // SHARDS_PER_ATTACKER, clients // lowest, lowest * min_crowd
        found.append(_fewer(fewer, spread))
        if smaller > 1:
            note = f"accept a min_crowd of {smaller} instead of {min_crowd}, with {lowest} shards"
            found.append(Change(setting="min_crowd", value=smaller, shards=lowest, text=note))
        note = f"enroll {more} clients instead of {clients}, with {lowest} shards"
        found.append(Change(setting="clients", value=more, shards=lowest, text=note))
    return tuple(found)


def _between(lowest: int, highest: int) -> str:
    return str(lowest) if lowest == highest else f"from {lowest} to {highest}"


def _fewer(malicious: int, shards: int) -> Change:
    named = f"at most {count(malicious)}" if malicious else "no malicious client"
    return Change(setting="malicious", value=malicious, shards=shards, text=f"assume {named}, with {shards} shards")
