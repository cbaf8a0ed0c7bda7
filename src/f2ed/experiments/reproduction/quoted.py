"""Numbers that pages quote: from our records, from the paper's text, and from the released logs."""

import textwrap
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from f2ed.experiments.file import find, read
from f2ed.experiments.grid import Cell, expand
from f2ed.experiments.reproduction.comparison import OURS, number
from f2ed.experiments.reproduction.outcomes import Measured, Panel, matched, panels
from f2ed.experiments.reproduction.paper import released, stated
from f2ed.records import RunLog, locate, read_all

__all__ = [
    "FASHION",
    "RESNET",
    "by_rule",
    "ended",
    "ends_of",
    "fill",
    "finished_runs",
    "logs_of",
    "measured",
    "percent",
    "recorded",
    "runs_of",
    "says",
]

FASHION, RESNET = "fashion-mnist", "DBA ResNet18"


def ends_of(experiment: str, results: Path, *parts: str, shared: str | None = None) -> list[Panel]:
    """Return the panels of an experiment or of some parts; `shared` names another experiment with the same runs."""
    cells = _cells(experiment, *parts)
    logs = [log for name in (experiment, shared) if name is not None for log in logs_of(results / name)]
    return panels(cells, matched(cells, logs))


def runs_of(experiment: str, results: Path, part: str) -> list[RunLog]:
    """Return the finished runs of a part of an experiment."""
    return list(matched(_cells(experiment, part), logs_of(results / experiment)).values())


def finished_runs(experiment: str, results: Path) -> list[tuple[Cell, RunLog]]:
    """Return the runs of an experiment that are finished, in the order of its file."""
    cells = _cells(experiment)
    found = matched(cells, logs_of(results / experiment))
    return [(cell, found[cell.slug]) for cell in cells if cell.slug in found]


def _cells(experiment: str, *parts: str) -> list[Cell]:
    return expand(read(find(Path(experiment))).only_parts(parts))


@cache
def logs_of(folder: Path) -> list[RunLog]:
    """Return the runs of a folder or archive; none if it does not exist."""
    return read_all(folder) if locate(folder).exists() else []


def by_rule(experiment: str, part: str, results: Path) -> dict[str, Measured]:
    """Return the final values of each rule in a part of a file that has a single panel."""
    (panel,) = ends_of(experiment, results, part)
    return {arm.partition(",")[0]: end for arm, end in panel.arms.items() if end is not None}


def ended(ends: Sequence[Panel], data: str, attack: str, arm: str = OURS) -> str:
    """Return the final value of an arm as text."""
    return number(measured(ends, data, attack, arm))


def measured(ends: Sequence[Panel], data: str, attack: str, arm: str) -> Measured | None:
    """Return the final values of an arm; None if it was not run."""
    return next((panel.arms.get(arm) for panel in ends if (panel.data, panel.attack) == (data, attack)), None)


def recorded(figure: str, attack: str, arm: str = OURS) -> str:
    """Return the final value of the released log on Fashion-MNIST."""
    return percent(released(figure, FASHION, attack)[arm])


def percent(share: float) -> str:
    """Return a share of one in percent, as the tables show it."""
    return f"{100 * share:.2f}"


def says(figure: str, data: str, attack: str) -> str:
    """Return the number stated for FilterL2 in the paper's text."""
    return percent(stated(figure, data, OURS)[attack])


def fill(text: str) -> str:
    """Return a paragraph in lines of at most 120 characters."""
    return "\n".join(textwrap.wrap(" ".join(text.split()), 120, break_long_words=False, break_on_hyphens=False)) + "\n"
