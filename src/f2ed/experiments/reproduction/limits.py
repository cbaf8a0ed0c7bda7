"""The page on how many malicious clients are withstood: searches with fewer of them, and why ten are too many."""

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean

import msgspec

from f2ed.experiments.reproduction.comparison import Table
from f2ed.experiments.reproduction.quoted import fill, finished_runs
from f2ed.experiments.reproduction.repaired import repair_section
from f2ed.experiments.reproduction.searched import Searched, searched, searched_in_shards, tries
from f2ed.experiments.reproduction.worst_case import Arm
from f2ed.records import RunLog

__all__ = ["limits_page", "worst_planted"]

_QUIET, _ROWS = "quiet_backdoor", "quiet_rows.json"
_SHOWN, _SHARDS = "0.3", 25
"""The step at which the weight on contaminated rows is shown; the number of shards."""


class Told(msgspec.Struct, frozen=True):
    """How the rows of a quiet backdoor stood out under the plain mean; see benchmarks/quiet_rows.py."""

    reach: float
    contaminated: int
    sets: int
    above: float
    overlap: float
    persists: float
    accuracy: float
    success: float


def limits_page(results: Path) -> str:
    """Return the whole page; a section without records is left out."""
    return "\n".join([_TITLE, *_planted(results), *_quiet(results), *repair_section(results), _PROVENANCE])


def _planted(results: Path) -> list[str]:
    found = searched(results, "planted")
    if not found:
        return []
    backdoors = [each for each in found if each.objective == "backdoor"]
    attacks = [each for each in found if each.objective == "accuracy"]
    lost = [100 * (fmean(each.honest) - fmean(each.accuracy)) for each in attacks]
    summary = f"""**With 10 of 100 clients malicious, every rule lets a backdoor in; with 5, rules with a fence let in
    little of what was tried.** 25 shards, MNIST, clients that have all classes, a small dense network:
    no backdoor that was tried by 2 or 5 malicious clients reached more than {worst_planted(results)}, no attack cost
    more than {max(lost):.1f} points of accuracy, and without an attack the rules lose nothing. These searches were
    short, and a stronger attack may exist. With 10, searches [found a backdoor](frontier.md) against every rule
    {_ten(results)}; [below](#why-ten-are-too-many) is what makes that hard to mend."""
    text = f"""For each rule {tries(backdoors)} backdoors were tried, and {tries(attacks)} attacks on accuracy, with
    `f2ed search`. Of a backdoor counts what was [planted](search_attacks.md#two-objectives): its success, minus that of
    the same trigger against a model that was never poisoned. The noise of a learned trigger (`iba`) fools such a model,
    too. What was found was run with {_seeds(found)}: means ± half their range, in percent after 30 rounds."""
    return [fill(summary), f"## Searched attacks by 2 and 5 malicious clients\n\n{fill(text)}",
            _planted_table(backdoors, attacks).markdown()]  # fmt: skip


def worst_planted(results: Path) -> str:
    """Return the largest backdoor by 2 or 5 malicious clients that a search found."""
    found = [each for each in searched(results, "planted") if each.objective == "backdoor"]
    return f"{max(100 * fmean(each.backdoor) for each in found):.1f} %"


def _ten(results: Path) -> str:
    """Return what ten malicious clients plant where clients have all classes, and with which rule least."""
    found = [each for each in searched_in_shards(results) if each.objective == "backdoor" and "i.i.d." in each.setting]
    if not found:
        return ""
    least, most = (end(found, key=Searched.harm) for end in (min, max))
    return f"(from {100 * least.harm():.0f} % with *{least.name}* to {100 * most.harm():.0f} %)"


def _seeds(found: Sequence[Searched]) -> str:
    seeds = min(len(each.accuracy) for each in found)
    return {1: "one seed", 2: "two seeds", 3: "three seeds"}.get(seeds, f"{seeds} seeds")


def _planted_table(backdoors: Sequence[Searched], attacks: Sequence[Searched]) -> Table:
    lowest = {(each.setting, each.rule): each for each in attacks}
    rows = []
    for each in backdoors:
        worst = lowest.get((each.setting, each.rule))
        rows.append((
            each.setting.partition(",")[0], each.name, _text(each.honest),
            "not searched" if worst is None else f"{_text(worst.accuracy)} ({worst.attack['kind']})",
            f"{_text(each.backdoor)} ({each.attack['kind']})",
            _text(each.success), _text(each.unpoisoned),
        ))  # fmt: skip
    head = ("no attack", "worst accuracy", "worst backdoor", "its success", "against a clean model")
    return Table("", ("malicious", "rule", *head), tuple(rows), 2)


def _text(shares: Sequence[float]) -> str:
    spread = f" ± {50 * (max(shares) - min(shares)):.1f}" if len(shares) > 1 else ""
    return f"{100 * fmean(shares):.1f}{spread}"


def _quiet(results: Path) -> list[str]:
    told = _told(results)
    if not told:
        return []
    arms, weights = _arms(results)
    tables = [
        f"{title}\n\n{_table(by_rule, weights[setting]).markdown()}"
        for setting, title in _TITLES.items()
        if (by_rule := arms.get(setting))
    ]
    first = told[0]
    chance = first.contaminated**2 / _SHARDS
    head = fill(_SETS.format(sets=first.sets, rows=first.contaminated, chance=chance))
    meaning = fill(_MEANING.format(persists=100 * fmean(each.persists for each in told)))
    return [f"{_HEAD}\n{head}", _told_table(told).markdown(), meaning, *tables]


def _told(results: Path) -> list[Told]:
    path = results / _ROWS
    return msgspec.json.decode(path.read_bytes(), type=list[Told]) if path.exists() else []


def _arms(results: Path) -> tuple[dict[str, dict[str, Arm]], dict[str, dict[str, list[float]]]]:
    """Return final values and the weights on contaminated rows, by part and rule."""
    arms: dict[str, dict[str, Arm]] = defaultdict(lambda: defaultdict(Arm))
    weights: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for cell, log in finished_runs(_QUIET, results):
        where, rule = f"{cell.arm.get('shards', '25')}, {cell.experiment.malicious}", cell.arm["estimator"]
        arms[where][rule].add(cell, log)
        if cell.arm["attack"] == _SHOWN and (weight := _weight(log)) is not None:
            weights[where][rule].append(weight)
    return arms, weights


def _weight(log: RunLog) -> float | None:
    given = [weight for record in log.rounds if (weight := record.contaminated_weight) is not None]
    return fmean(given) if given else None


def _table(by_rule: dict[str, Arm], weights: dict[str, list[float]]) -> Table:
    steps = list(dict.fromkeys(step for arm in by_rule.values() for step in arm.success))
    rows = [
        (
            rule,
            *(arm.success[step].text() if step in arm.success else "not run" for step in steps),
            _text(weights[rule]) if weights.get(rule) else "per coordinate",
        )
        for rule, arm in by_rule.items()
    ]
    return Table("", ("rule", *(f"step {step}" for step in steps), "weight on contaminated rows"), tuple(rows))


def _told_table(told: Sequence[Told]) -> Table:
    rows = [
        (f"{each.reach:g}", f"{100 * each.above:.1f} %", f"{each.overlap:.1f}", f"{100 * each.success:.1f}")
        for each in told
    ]
    head = (
        "step",
        "sets that move the mean farther",
        "contaminated rows in the farthest set",
        "backdoor with the mean",
    )
    return Table("", head, tuple(rows))


_TITLES = {
    "25, 10": "25 shards, 10 malicious: success, and the weight on the contaminated rows (36 % of all) at step 0.3.",
    "25, 5": "25 shards, 5 malicious:",
    "25, 2": "25 shards, 2 malicious:",
    "none, 10": "A row for each client, 10 malicious:",
}
_TITLE = """# How many malicious clients are withstood

<!-- Written by docs/scripts/limits.py from the records; change that instead. -->
"""
_PROVENANCE = """## How it was run

The searches: `f2ed search --part iid-2 --part iid-5 --budget 18 --confirm 2 --device cuda`, on one NVIDIA H200 beside
other work, in 5.9 minutes; what was found is in `results/searched/planted.json`. Most of these trials are listed
attacks, so it is a lower bound. The quiet backdoor ran on a CPU, with one seed.

```console
$ python docs/scripts/limits.py results          # writes this page
$ python benchmarks/quiet_rows.py results/quiet_rows.json   # compares all sets of rows
$ python benchmarks/repair.py runs/searched_backdoor results/repair.json   # repairs saved models
```
"""
_HEAD = """## Why ten are too many

Is a better rule to be found, or do the rows of 25 shards not show which of them are contaminated? The
[quiet backdoor](attacks.md#attacks-on-data) asks that (`experiments/quiet_backdoor.toml`, i.i.d., 10 of 100 clients).
Malicious clients train honestly, and all add the same step toward a poisoned update, *step* times as long as what
honest updates differ by from their mean. They know nothing about other clients, shards or the rule. In a shard of four
with one of them the step is a quarter as long, and the row's own deviation half as long: shards hide attackers for the
same reason that they hide clients.
"""
_SETS = """What gives them away is that their rows agree: together they move the mean farther than other rows do. So all
{sets:,} sets of {rows} rows were compared by how far they move it (`benchmarks/quiet_rows.py`, one seed, every third
round). By chance half of the sets move it farther than the contaminated one, and the farthest has {chance:.1f} of the
{rows} contaminated rows."""
_MEANING = """So with a step of 0.3 a tenth of all sets stands out more, and the farthest one is hardly better
than chance. A rule that looks for agreement among rows then rejects honest ones, and the contaminated rows keep their
share of the weight. Rules that also bound every coordinate, near the median, follow less than the mean does, but
fall to other attacks, or to this one with a longer step ([searched](frontier.md)).
Memory does not help much while shards are fixed: an honest row deviates in nearly the same way in every round, since
its clients' data stay the same (the mean of its deviations is {persists:.0f} % as long as they are), so this chance
does not average out. Resharding would let a server solve for what persists of each client, which is what shards are to
keep from it; that was not tried. With [helpers](helpers.md) rows are those of clients, and no party sees one."""
