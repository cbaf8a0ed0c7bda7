"""How far a clean-up after training removes a backdoor that a rule let in; see benchmarks/repair.py."""

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

import msgspec

from f2ed.experiments.reproduction.comparison import Table
from f2ed.experiments.reproduction.quoted import fill

__all__ = ["Effect", "Repaired", "repair_section", "repair_table"]

_RECORD = "repair.json"


class Effect(msgspec.Struct, frozen=True):
    """A model on the test data; shares of one."""

    accuracy: float
    success: float


class Repaired(msgspec.Struct, frozen=True):
    """One model before and after a clean-up."""

    partition: str
    estimator: str
    seed: str
    method: str
    samples: int
    before: Effect
    after: Effect


def repair_section(results: Path) -> list[str]:
    """Return the section; nothing without records."""
    path = results / _RECORD
    if not path.exists():
        return []
    found = msgspec.json.decode(path.read_bytes(), type=list[Repaired])
    seeds = len({each.seed for each in found})
    least, most = (end(100 * each.before.success for each in found) for end in (min, max))
    after = {each.method: each for each in _means(found)}
    text = _TEXT.format(
        seeds=seeds,
        least=least,
        most=most,
        kept=100 * min(after[method].success for method in ("fine-tune", "fine-prune")),
        left=100 * after["unlearn"].success,
        cost=100 * (fmean(each.before.accuracy for each in found) - after["unlearn"].accuracy),
    )
    return [f"## What a clean-up removes\n\n{fill(text)}", repair_table(found).markdown()]


class Mean(NamedTuple):
    """What a method leaves with the most samples, over all rules and seeds."""

    method: str
    accuracy: float
    success: float


def _means(found: Sequence[Repaired]) -> list[Mean]:
    most = max(each.samples for each in found)
    by_method: dict[str, list[Effect]] = defaultdict(list)
    for each in found:
        if each.samples == most:
            by_method[each.method].append(each.after)
    return [
        Mean(method, fmean(each.accuracy for each in effects), fmean(each.success for each in effects))
        for method, effects in by_method.items()
    ]


def repair_table(found: Sequence[Repaired]) -> Table:
    """Return a row for each setting, rule and method: accuracy and backdoor for each number of trusted samples."""
    groups: dict[tuple[str, str, str], dict[int, list[Repaired]]] = defaultdict(lambda: defaultdict(list))
    for each in found:
        groups[each.partition, each.estimator, each.method][each.samples].append(each)
    counts = sorted({each.samples for each in found})
    rows, named = [], set[tuple[str, str]]()
    for (partition, rule, method), by_count in groups.items():
        if (partition, rule) not in named:
            named.add((partition, rule))
            rows.append(
                (partition, rule, "none", *(_cells([each.before for each in by_count[counts[0]]]) * len(counts)))
            )
        cells = [cell for count in counts for cell in _cells([each.after for each in by_count[count]])]
        rows.append((partition, rule, f"`{method}`", *cells))
    head = [name for count in counts for name in (f"accuracy, {count} samples", f"backdoor, {count} samples")]
    return Table("", ("clients", "rule", "clean-up", *head), tuple(rows), 3)


def _cells(effects: Sequence[Effect]) -> tuple[str, str]:
    return _text([each.accuracy for each in effects]), _text([each.success for each in effects])


def _text(shares: Sequence[float]) -> str:
    if not shares:
        return "not run"
    spread = f" ± {50 * (max(shares) - min(shares)):.1f}" if len(shares) > 1 else ""
    return f"{100 * fmean(shares):.1f}{spread}"


_TEXT = """Where a rule lets a backdoor in, a server with a few samples that it trusts can [clean the model
up](choosing_estimator.md#after-training-f2ed-repair) afterwards, without knowing the trigger. Fine-tuning and pruning
hardly help: they leave {kept:.0f} % of the backdoor. `unlearn` leaves {left:.0f} % and costs {cost:.1f} points of
accuracy. Models of `experiments/searched_backdoor.toml` (MNIST, 10 of 100 clients malicious, 25 shards; a backdoor
that a search found, with {least:.1f} to {most:.1f} % success) before and after `f2ed repair` at its default settings,
{seeds} seeds: means ± half their range, in percent. The defaults of `unlearn` were chosen on a run with another
backdoor and nearly the same trigger, so take its rows as optimistic; an attacker who expects it may choose a trigger
that it does not find."""
