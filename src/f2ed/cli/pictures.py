"""A figure of the paper, drawn from the runs of its file with the file's own labels."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from f2ed.experiments import Cell
from f2ed.records import RunHeader, RunLog
from f2ed.report.figures import write_figures
from f2ed.report.reading import Run

__all__ = ["draw"]


def draw(figure: str, cells: Sequence[Cell], found: Mapping[str, RunLog], folder: Path) -> list[Path]:
    """Write the figure into the folder, one file for each data set; return the files."""
    return write_figures(_relabelled(figure, cells, found), folder, "svg")


def _relabelled(name: str, cells: Sequence[Cell], found: Mapping[str, RunLog]) -> list[Run]:
    """Return the runs with the file's own labels, whatever they were called when they were run."""
    chosen = sorted(cells, key=lambda cell: cell.experiment.rows) if name == "fig6" else cells
    return [
        Run(
            cell.slug,
            (_by_shards if name == "fig6" else _named)(cell, found[cell.slug].header),
            found[cell.slug].rounds,
        )
        for cell in chosen
        if cell.slug in found
    ]


def _named(cell: Cell, header: RunHeader) -> RunHeader:
    """Give each data set as the file calls it a figure of its own.

    Masks change no curve, and an attack that is run with a training or a network of its own is a panel like the others.
    """
    data = {"kind": cell.arm.get("data") or cell.experiment.data.__struct_config__.tag}
    settings = _settings(cell, without={"secure", "training", "model"}) | {"data": data}
    return msgspec.structs.replace(header, arm=cell.arm, settings=settings)


def _by_shards(cell: Cell, header: RunHeader) -> RunHeader:
    """Make the number of shards tell the curves of one panel apart, and not the figures."""
    label = f"{cell.arm['estimator']}, {cell.arm['shards']} shards"
    settings = _settings(cell, without={"shards", "secure"}) | {"estimator": {"kind": label}}
    return msgspec.structs.replace(header, arm=cell.arm | {"estimator": label}, settings=settings)


def _settings(cell: Cell, *, without: set[str]) -> dict[str, Any]:
    """Return the cell's settings, not the record's: one from before a setting was there would stand apart."""
    return {key: value for key, value in msgspec.to_builtins(cell.experiment).items() if key not in without}
