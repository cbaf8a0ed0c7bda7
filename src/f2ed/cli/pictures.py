"""A figure of the paper, drawn from the runs of its file with the file's own labels."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from f2ed.experiments import Cell
from f2ed.experiments.reproduction.comparison import against_shards
from f2ed.experiments.reproduction.outcomes import panels
from f2ed.records import RunHeader, RunLog
from f2ed.records.intake import RecordedRun
from f2ed.report.against import Point, draw_against
from f2ed.report.figures import write_figures

__all__ = ["draw"]


def draw(figure: str, cells: Sequence[Cell], found: Mapping[str, RunLog], folder: Path) -> list[Path]:
    """Write the figure into the folder, one file for each data set; return the files."""
    if figure == "fig6":
        return [_by_shards(cells, found, folder / "figure.svg")]
    # Use the file's labels, whatever the runs were called when they were recorded.
    runs = (
        RecordedRun(cell.slug, _named(cell, log.header), log.rounds) for cell in cells if (log := found.get(cell.slug))
    )
    return write_figures(list(runs), folder, "svg")


def _by_shards(cells: Sequence[Cell], found: Mapping[str, RunLog], path: Path) -> Path:
    """Plot the final results against the number of shards."""
    lines = {
        name: [
            Point(shards, end.mean, min(end.ends.values()), max(end.ends.values()), hollow=end.outnumbered(shards))
            for shards, end in sorted(points.items())
        ]
        for name, points in against_shards(panels(cells, found)).items()
    }
    hollow = "at least half of the shards are contaminated"
    draw_against(lines, path, setting="shards", measure="at the end", hollow=hollow)
    return path


def _named(cell: Cell, header: RunHeader) -> RunHeader:
    """Return the header with the file's labels, so that each data set gets its own figure.

    Masks do not change the curves, and an attack with its own training or network is a panel like the others.
    """
    data = {"kind": cell.arm.get("data") or cell.experiment.data.__struct_config__.tag}
    settings = _settings(cell, without={"secure", "training", "model"}) | {"data": data}
    return msgspec.structs.replace(header, arm=cell.arm, settings=settings)


def _settings(cell: Cell, *, without: set[str]) -> dict[str, Any]:
    """Return the cell's settings rather than the record's: records older than a setting would form another group."""
    return {key: value for key, value in msgspec.to_builtins(cell.experiment).items() if key not in without}
