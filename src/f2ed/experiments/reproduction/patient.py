"""Patient backdoors: what attackers reach in thirty rounds who never stand out."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

from f2ed.experiments.file import find, read
from f2ed.experiments.grid import Cell, expand
from f2ed.experiments.reproduction.comparison import Table
from f2ed.experiments.reproduction.outcomes import matched
from f2ed.experiments.reproduction.quoted import fill, logs_of
from f2ed.experiments.reproduction.worst_case import Arm
from f2ed.records import RunLog

__all__ = ["patient"]

_NAME = "patient_backdoors"


def patient(results: Path) -> str:
    """Return a paragraph and the table; a sentence if it was not run."""
    cells = expand(read(find(Path(_NAME))))
    found = matched(cells, logs_of(results / _NAME))
    if len(found) < len(cells):
        return f"Patient backdoors: {len(found)} of {len(cells)} runs were done, so the table is not run to its end.\n"
    attacks = len({cell.arm["attack"] for cell in cells}) - 1
    words = fill(
        f"""**Thirty rounds are not eight.** The same setting for 30 rounds, against {attacks} attacks, among them
        backdoors that are sent as trained, without any boost (`experiments/{_NAME}.toml`, {len(cells)} runs). FilterL2
        removes spread, and attackers that agree with one another have little; *fence* keeps its choice of rows and
        bounds every coordinate of them. Where clients have three classes each, a backdoor sent as trained gets past
        every rule here."""
    )
    return f"{words}\n{_table(cells, found).markdown()}"


def _table(cells: Sequence[Cell], found: Mapping[str, RunLog]) -> Table:
    arms: dict[str, dict[str, Arm]] = defaultdict(lambda: defaultdict(Arm))
    for cell in cells:
        arms[cell.arm["estimator"]][cell.arm["partition"]].add(cell, found[cell.slug])
    partitions = list(dict.fromkeys(cell.arm["partition"] for cell in cells))
    head = ["rule"]
    for partition in partitions:
        head += [f"{partition}: no attack", "worst accuracy", "worst backdoor"]
    rows = []
    for rule, by_partition in arms.items():
        texts = [rule]
        for partition in partitions:
            arm = by_partition[partition]
            texts += [arm.accuracy["none"].text(), arm.lowest(len(arm.attacks)), arm.largest()]
        rows.append(tuple(texts))
    return Table("", tuple(head), tuple(rows))
