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
from f2ed.guarantees.robustness import Guarantee, check_counts, guarantee
from f2ed.records import text
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

    @property
    def feasible(self) -> range:
        """All numbers of shards that give both protections."""
        return range(self.lowest, self.highest + 1)


def plan_shards(*, clients: int, malicious: int, min_crowd: int | None = None, shards: int | None = None) -> ShardPlan:
    """Recommend a number of shards, or judge the one given.

    `malicious` is the number of attackers to assume, `min_crowd` the smallest number of clients whose mean the server
    may see.
    """
    check_counts(clients, malicious)
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
        verdict=_verdict(choice, wanted),
        why=_why_none(clients, malicious, wanted) if choice is None else _why(choice, recommended, judged=bool(shards)),
        options=tuple(
            guarantee(clients=clients, malicious=malicious, shards=p) for p in _ladder(lowest, highest, recommended)
        ),
        changes=() if ok else _changes(clients, malicious, wanted, shards),
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


def _verdict(choice: Guarantee | None, min_crowd: int) -> str:
    if choice is None:
        return "No number of shards gives both protections."
    if not choice.holds:
        return f"No guarantee: {choice.shards} shards against {_count(choice.malicious)} violate 12·m < p."
    if choice.crowd < min_crowd:
        return f"The theorem holds, but the crowd is {choice.crowd}, below the min_crowd of {min_crowd}."
    if choice.crowd == 1:
        return f"The theorem holds against {_count(choice.malicious)}, but the server sees every update."
    robust = f"{choice.shards} shards tolerate {_count(choice.malicious)}, and " if choice.malicious else ""
    return f"Guaranteed: {robust}every client is hidden in a crowd of {choice.crowd}."


def _why_none(clients: int, malicious: int, min_crowd: int) -> tuple[str, ...]:
    lowest = SHARDS_PER_ATTACKER * malicious + 1
    attackers = (
        f"{malicious} attackers can contaminate {malicious} shards"
        if malicious > 1
        else "1 attacker can contaminate 1 shard"
    )
    robust = f"{attackers}. The theorem requires fewer than 1/12 of all shards: at least {lowest} shards."
    private = f"{clients} clients in shards of at least {min_crowd} make at most {clients // min_crowd} shards."
    return (robust, private, *_hopeless(clients, lowest))


def _hopeless(clients: int, lowest: int) -> tuple[str, ...]:
    hopeless = f"{lowest} shards are more than there are clients: no min_crowd is small enough."
    return (hopeless,) if lowest > clients else ()


def _why(choice: Guarantee, recommended: int | None, *, judged: bool) -> tuple[str, ...]:
    lines = [_worst_case(choice)]
    if not choice.holds and choice.malicious:
        lines.append(_random_assignment(choice))
    if choice.crowd == 1:
        lines.append("A shard of one client has no crowd: its mean is that client's update.")
    if choice.holds and choice.malicious:
        lines.append(
            f"{choice.spare_shards} shards may stay closed in a round before the condition fails."
            if choice.spare_shards
            else "There are no spare shards: one that stays closed in a round violates the condition for that round."
        )
    if not judged and choice.malicious:
        lines.append(_even_split(choice))
    elif recommended is not None and recommended != choice.shards:
        lines.append(f"For this crowd and these attackers the planner recommends {recommended} shards.")
    return (*lines, *_hopeless(choice.clients, SHARDS_PER_ATTACKER * choice.malicious + 1))


def _worst_case(choice: Guarantee) -> str:
    m, p = choice.malicious, choice.shards
    if not m:
        return "Without malicious clients there is nothing to tolerate, and one shard gives the largest crowd."
    compare = f"12·{m} = {SHARDS_PER_ATTACKER * m} {'<' if choice.holds else '≥'} {p}"
    contaminated = f"Worst case, each attacker in its own shard: {min(m, p)} of {p} shard means contaminated"
    return f"{contaminated} ({compare}). That is {text.region(choice.region)}."


def _random_assignment(choice: Guarantee) -> str:
    return (
        f"A random assignment contaminates {choice.expected_share:.0%} of the shards on average. Fewer than 1/12 are "
        f"contaminated with probability {percent(choice.chance_of_theorem)}, fewer than half with probability "
        f"{percent(choice.chance_of_minority)}; each new assignment draws again."
    )


def _even_split(choice: Guarantee) -> str:
    return (
        f"The theorem's error is the same for every feasible number, so the margin is split evenly between both sides: "
        f"{choice.shards} shards tolerate up to {choice.tolerated} malicious clients with a crowd of {choice.crowd}."
    )


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
    named = f"at most {_count(malicious)}" if malicious else "no malicious client"
    return Change(setting="malicious", value=malicious, shards=shards, text=f"assume {named}, with {shards} shards")


def _count(malicious: int) -> str:
    return "1 malicious client" if malicious == 1 else f"{malicious} malicious clients"


def percent(chance: float) -> str:
    """Format a probability so that neither 0% nor 100% hides a difference."""
    if chance in (0.0, 1.0):
        return f"{chance:.0%}"
    if chance < 0.0005:
        return f"{100 * chance:.0e}%" if chance > 1e-12 else "<1e-10%"
    return ">99.9%" if chance > 0.9995 else f"{chance:.1%}"
