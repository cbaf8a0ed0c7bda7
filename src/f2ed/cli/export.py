"""`f2ed export`: records for other tools."""

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter
from rich.console import Console

from f2ed.cli.problems import read_some
from f2ed.core.errors import ConfigError
from f2ed.report.export import write_csv, write_parquet, write_tensorboard

__all__ = ["export"]


def export(
    *runs: Annotated[Path, Parameter(help="Folders with records, record files or archives (.jsonl, .jsonl.xz).")],
    to: Annotated[Literal["csv", "parquet"] | None, Parameter(help="The kind of table to write.")] = None,
    out: Annotated[
        Path | None, Parameter(name=["--out", "-o"], help="The table; by default records.csv or .parquet.")
    ] = None,
    tensorboard: Annotated[Path | None, Parameter(help="Write event files for TensorBoard into this folder.")] = None,
) -> None:
    """Export records as CSV, Parquet or for TensorBoard.

    Example: f2ed export runs/demo --to csv -o demo.csv

    Example: f2ed export runs/demo --tensorboard events
    """
    if to is None and tensorboard is None:
        raise ConfigError("no output format given; use --to csv, --to parquet or --tensorboard FOLDER")
    console = Console(highlight=False)
    found = read_some(runs, console)
    if to is not None:
        path = out or Path(f"records.{to}")
        count = write_csv(found, path) if to == "csv" else write_parquet(found, path)
        console.print(f"{count} rounds of {len(found)} runs are in {path}", soft_wrap=True, markup=False)
    if tensorboard is not None:
        count = write_tensorboard(found, tensorboard)
        message = f"{count} numbers of {len(found)} runs are in {tensorboard}; view: tensorboard --logdir {tensorboard}"
        console.print(message, soft_wrap=True, markup=False)
