"""A figure of the paper as tables and sentences, for the command and the documentation."""

from collections.abc import Mapping, Sequence

from f2ed.experiments.grid import Cell
from f2ed.experiments.reproduction.comparison import (
    Table,
    against_paper,
    against_released,
    behind,
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
    """Return the tables of a figure; first, unless `compare` is false, the comparisons with published numbers."""
    if figure in WORST_CASES:
        return [worst_case(cells, found)]
    ends = shown(cells, found)
    if figure == "fig6":
        return [by_shards(ends)]
    every = [every_arm(ends, data) for data in dict.fromkeys(panel.data for panel in ends)]
    if not compare:
        return every
    ours = against_paper(figure, panels(cells, found)), against_released(figure, ends)
    return [*(table for table in ours if table.rows), *every]


def standing(figure: str, cells: Sequence[Cell], found: Mapping[str, RunLog]) -> list[str]:
    """Describe where FilterL2 is not among the best, the worst first; for Figure 6, the effect of the shard count."""
    if figure in WORST_CASES:
        return []
    return (minority if figure == "fig6" else behind)(shown(cells, found))


def shown(cells: Sequence[Cell], found: Mapping[str, RunLog]) -> list[Panel]:
    """Return the panels with at least one run."""
    return [panel for panel in panels(cells, found) if any(panel.arms.values())]
