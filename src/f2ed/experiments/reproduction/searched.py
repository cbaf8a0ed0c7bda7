"""What searches for the worst attack found on each rule, and what that says about the choice of one."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from statistics import fmean

import msgspec

from f2ed.experiments.reproduction.choice import Ends, worse
from f2ed.experiments.reproduction.comparison import Table
from f2ed.experiments.reproduction.frontier import measured_frontier
from f2ed.experiments.reproduction.quoted import finished_runs
from f2ed.experiments.reproduction.worst_case import Arm

__all__ = [
    "Searched",
    "fewer_lost",
    "fewer_malicious",
    "five_malicious",
    "joined",
    "searched",
    "searched_in_shards",
    "searched_table",
    "tries",
    "worst_of",
]

_RULES = {
    "fence": "FilterL2 + fence",
    "fence(inner=dual-filter)": "Dual filter + fence",
    "fence(inner=dual-filter, cut=trim, most=0.47)": "Dual filter + median",
    "align-ins": "AlignIns",
    "hard-weights": "FilterL2, hard",
}
_IN_SHARDS = ("shards", "shards_2", "shards_3", "shards_4")
_FEWER, _FIVE, _ADAPTIVE = "fewer_malicious", "five_malicious", "adaptive backdoor"


class Searched(msgspec.Struct, frozen=True):
    """The worst attack that a search found on a rule, run with several seeds; values are shares of one."""

    setting: str
    rule: str
    objective: str
    trials: int
    stopped: int
    honest: list[float]
    accuracy: list[float]
    success: list[float]
    attack: dict[str, object]
    unpoisoned: list[float] = []
    """What the trigger reaches against a model that was never poisoned, for each seed; older searches lack it."""
    planted: list[float] = []
    """The success beyond that."""

    @property
    def backdoor(self) -> list[float]:
        """What counts of a backdoor: what was planted, or where that was not measured its success."""
        return self.planted or self.success

    @property
    def name(self) -> str:
        """The rule as the other tables have it."""
        return _RULES.get(self.rule, self.rule)

    def harm(self) -> float:
        """Return how bad it is: what a backdoor planted, or the accuracy that is missing."""
        return fmean(self.backdoor) if self.objective == "backdoor" else 1 - fmean(self.accuracy)


def searched(results: Path, name: str) -> list[Searched]:
    """Return what a search found, `found.json` under another name; nothing if it was not run."""
    path = results / "searched" / f"{name}.json"
    return msgspec.json.decode(path.read_bytes(), type=list[Searched]) if path.exists() else []


def searched_in_shards(results: Path) -> list[Searched]:
    """Return what the searches with 25 shards found together; the later ones have other rules and attacks."""
    return worst_of([each for name in _IN_SHARDS for each in searched(results, name)])


def worst_of(found: Iterable[Searched]) -> list[Searched]:
    """Join several searches: for each setting, rule and objective the worse attack, with the trials of both."""
    best: dict[tuple[str, str, str], Searched] = {}
    for each in found:
        place = _partition(each), each.name, each.objective
        other = best.get(place, each)
        kept = max(other, each, key=Searched.harm) if other is not each else each
        added = {} if other is each else {"trials": other.trials + each.trials, "stopped": other.stopped + each.stopped}
        best[place] = msgspec.structs.replace(kept, **added)
    return sorted(best.values(), key=lambda each: [*dict.fromkeys(place[0] for place in best)].index(_partition(each)))


def tries(found: Sequence[Searched]) -> str:
    """Return how many attacks were tried each time: one number, or the fewest and the most."""
    fewest, most = (end(each.trials for each in found) for end in (min, max))
    return str(most) if fewest == most else f"{fewest} to {most}"


def searched_table(found: Sequence[Searched]) -> Table:
    """Return a row for each setting and rule: without an attack, and under the worst one by each objective."""
    rows: dict[tuple[str, str], dict[str, Searched]] = defaultdict(dict)
    for each in found:
        rows[_partition(each), each.name][each.objective] = each
    head = ("setting", "rule", "no attack", "worst accuracy", "worst backdoor", "accuracy with it")
    return Table(
        "", head, tuple((*place, *_row(both.get("accuracy"), both["backdoor"])) for place, both in rows.items()), 2
    )


def joined(results: Path) -> dict[str, dict[str, Ends]]:
    """Return, for each setting with shards and each rule, the worse of the listed attacks and those found."""
    return worse(_every(results))


def _every(results: Path) -> Iterator[tuple[str, str, Ends]]:
    for rule in measured_frontier(results):
        data, _, partition = rule.setting.partition(", ")
        if data == "mnist" and "no shards" not in partition:
            lowest = rule.honest - (rule.lost - rule.cost)
            yield f"{partition}, 10", rule.rule, Ends(rule.honest, lowest, rule.backdoor)
    for each in searched_in_shards(results):
        backdoor = 100 * fmean(each.backdoor) if each.backdoor else 0.0
        ends = Ends(100 * fmean(each.honest), 100 * fmean(each.accuracy), backdoor)
        yield f"{_partition(each)}, 10", each.name, ends


def _partition(each: Searched) -> str:
    return each.setting.rpartition("none, ")[2].lstrip("0123456789, ")


def _row(accuracy: Searched | None, backdoor: Searched) -> tuple[str, ...]:
    return (
        _text(backdoor.honest),
        f"{_text(accuracy.accuracy)} ({accuracy.attack['kind']})" if accuracy else "not searched",
        f"{_text(backdoor.backdoor)} ({backdoor.attack['kind']})",
        _text(backdoor.accuracy),
    )


def _text(shares: Sequence[float]) -> str:
    spread = f" ± {50 * (max(shares) - min(shares)):.1f}" if len(shares) > 1 else ""
    return f"{100 * fmean(shares):.1f}{spread}"


def fewer_malicious(results: Path) -> Table:
    """Return the success of the worse backdoor by rule and number of malicious clients."""
    arms = _fewer_arms(results)
    counts = sorted({count for by_count in arms.values() for count in by_count})
    rows = [(rule, *(by_count[count].largest() for count in counts)) for rule, by_count in arms.items()]
    return Table("", ("rule", *(f"{count} malicious" for count in counts)), tuple(rows))


def fewer_lost(results: Path) -> float:
    """Return the most points of accuracy that a rule lost to any of these backdoors."""
    arms = [arm for by_count in _fewer_arms(results).values() for arm in by_count.values()]
    return max(100 * (arm.accuracy["none"].mean - arm.accuracy[attack].mean) for arm in arms for attack in arm.success)


def five_malicious(results: Path) -> Table:
    """Return, for each partition and rule, what five malicious clients do; only what was run against the backdoor."""
    arms: dict[tuple[str, str], Arm] = defaultdict(Arm)
    for cell, log in finished_runs(_FIVE, results):
        arms[cell.arm["partition"], cell.arm["estimator"]].add(cell, log)
    rows = tuple(
        (*place, arm.accuracy["none"].text() if "none" in arm.accuracy else "not run", arm.success[_ADAPTIVE].text())
        for place, arm in arms.items()
        if _ADAPTIVE in arm.success
    )
    return Table("", ("partition", "rule", "no attack", "adaptive backdoor"), rows, 2)


def _fewer_arms(results: Path) -> dict[str, dict[int, Arm]]:
    arms: dict[str, dict[int, Arm]] = defaultdict(lambda: defaultdict(Arm))
    for cell, log in finished_runs(_FEWER, results):
        arms[cell.arm["estimator"]][cell.experiment.malicious].add(cell, log)
    return arms
