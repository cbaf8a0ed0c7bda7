"""The planner's answer in words: the verdict, and the reasons for it."""

from f2ed.guarantees.robustness import Guarantee
from f2ed.records import text
from f2ed.records.grading import SHARDS_PER_ATTACKER

__all__ = ["count", "percent", "verdict", "why", "why_none"]


def verdict(choice: Guarantee | None, min_crowd: int) -> str:
    """Return whether both protections hold, in one sentence."""
    if choice is None:
        return "No number of shards gives both protections."
    if not choice.holds:
        return f"No guarantee: {choice.shards} shards against {count(choice.malicious)} violate 12·m < p."
    if choice.crowd < min_crowd:
        return f"The theorem holds, but the crowd is {choice.crowd}, below the min_crowd of {min_crowd}."
    if choice.crowd == 1:
        return f"The theorem holds against {count(choice.malicious)}, but the server sees every update."
    robust = f"{choice.shards} shards tolerate {count(choice.malicious)}, and " if choice.malicious else ""
    return f"Guaranteed: {robust}every client is hidden in a crowd of {choice.crowd}."


def why_none(clients: int, malicious: int, min_crowd: int) -> tuple[str, ...]:
    """Return why no number of shards is feasible."""
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


def why(choice: Guarantee, recommended: int | None, *, judged: bool) -> tuple[str, ...]:
    """Return why the choice is guaranteed or not, and why the planner made it."""
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


def count(malicious: int) -> str:
    """Return the number with its noun."""
    return "1 malicious client" if malicious == 1 else f"{malicious} malicious clients"


def percent(chance: float) -> str:
    """Format a probability so that neither 0% nor 100% hides a difference."""
    if chance in (0.0, 1.0):
        return f"{chance:.0%}"
    if chance < 0.0005:
        return f"{100 * chance:.0e}%" if chance > 1e-12 else "<1e-10%"
    return ">99.9%" if chance > 0.9995 else f"{chance:.1%}"
