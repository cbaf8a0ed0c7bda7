"""A figure of the paper as tables and sentences: what the command prints, and the documentation shows."""

from collections.abc import Mapping, Sequence

from f2ed.experiments.grid import Cell
from f2ed.experiments.reproduction.comparison import (
    Table,
    behind,
    beside_the_paper,
    beside_the_records,
    by_shards,
    every_arm,
    minority,
)
from f2ed.experiments.reproduction.outcomes import Panel, panels
from f2ed.experiments.reproduction.paper import WORST_CASES
from f2ed.experiments.reproduction.worst_case import worst_case
from f2ed.records import RunLog

__all__ = ["shown", "standing", "tables"]


def tables(figure: str, cells: Sequence[Cell], found: Mapping[str, RunLog], *, compare: bool = True) -> list[Table]:
    """Return the figure's tables; first, if asked for, ours beside the paper's numbers and the authors' records."""
    if figure in WORST_CASES:
        return [worst_case(cells, found)]
    ends = shown(cells, found)
    if figure == "fig6":
        return [by_shards(ends)]
    every = [every_arm(ends, data) for data in dict.fromkeys(panel.data for panel in ends)]
    if not compare:
        return every
    ours = beside_the_paper(figure, panels(cells, found)), beside_the_records(figure, ends)
    return [*(table for table in ours if table.rows), *every]


def standing(figure: str, cells: Sequence[Cell], found: Mapping[str, RunLog]) -> list[str]:
    """Say where FilterL2 is not among the best, the worst first; of Figure 6, what the number of shards does."""
    if figure in WORST_CASES:
        return []
    return (minority if figure == "fig6" else behind)(shown(cells, found))


def shown(cells: Sequence[Cell], found: Mapping[str, RunLog]) -> list[Panel]:
    """Return the panels of which something was run."""
    return [panel for panel in panels(cells, found) if any(panel.arms.values())]
