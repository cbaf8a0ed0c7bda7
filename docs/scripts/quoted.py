"""Numbers that the page quotes: from the records, from the paper's text, and from what its authors released."""

import textwrap
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from f2ed.experiments import Cell, expand, read
from f2ed.experiments.reproduction.comparison import OURS, number
from f2ed.experiments.reproduction.outcomes import Measured, Panel, matched, panels
from f2ed.experiments.reproduction.paper import released, stated
from f2ed.records import RunLog, locate, read_all

_EXPERIMENTS = Path(__file__).parents[2] / "experiments"
FASHION, RESNET = "fashion-mnist", "DBA ResNet18"


def ends_of(experiment: str, results: Path, *parts: str, beside: str | None = None) -> list[Panel]:
    """Return the panels of an experiment file, or of parts of it, from what was run for it and for the one `beside`."""
    cells = _cells(experiment, *parts)
    logs = [log for name in (experiment, beside) if name is not None for log in logs_of(results / name)]
    return panels(cells, matched(cells, logs))


def runs_of(experiment: str, results: Path, part: str) -> list[RunLog]:
    """Return the finished runs of a part of an experiment file."""
    return list(matched(_cells(experiment, part), logs_of(results / experiment)).values())


def _cells(experiment: str, *parts: str) -> list[Cell]:
    return expand(read(_EXPERIMENTS / f"{experiment}.toml").only_parts(parts))


@cache
def logs_of(folder: Path) -> list[RunLog]:
    """Return what was run into a folder; nothing where there is none."""
    return read_all(folder) if locate(folder).exists() else []


def by_rule(experiment: str, part: str, results: Path) -> dict[str, Measured]:
    """Return what each rule that was run ended with in a part of a file that has one panel."""
    (panel,) = ends_of(experiment, results, part)
    return {arm.partition(",")[0]: end for arm, end in panel.arms.items() if end is not None}


def ended(ends: Sequence[Panel], data: str, attack: str, arm: str = OURS) -> str:
    """Return what an arm ended with, in words."""
    return number(measured(ends, data, attack, arm))


def measured(ends: Sequence[Panel], data: str, attack: str, arm: str) -> Measured | None:
    """Return what an arm ended with; None where it was not run."""
    return next((panel.arms.get(arm) for panel in ends if (panel.data, panel.attack) == (data, attack)), None)


def recorded(figure: str, attack: str, arm: str = OURS) -> str:
    """Return what the authors' record of Fashion-MNIST ends with."""
    return percent(released(figure, FASHION, attack)[arm])


def percent(share: float) -> str:
    """Return a share of one as the tables have it."""
    return f"{100 * share:.2f}"


def says(figure: str, data: str, attack: str) -> str:
    """Return what the paper's text says of FilterL2."""
    return percent(stated(figure, data, OURS)[attack])


def fill(text: str) -> str:
    """Return a paragraph in lines of at most 120 characters."""
    return "\n".join(textwrap.wrap(" ".join(text.split()), 120, break_long_words=False, break_on_hyphens=False)) + "\n"
