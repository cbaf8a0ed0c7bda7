"""`f2ed figures`: figures for papers."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from rich.console import Console

from f2ed.cli.problems import read_some
from f2ed.report.figures import Format, write_figures

__all__ = ["figures"]


def figures(
    *runs: Annotated[Path, Parameter(help="Folders with records, record files or archives (.jsonl, .jsonl.xz).")],
    kind: Annotated[Format, Parameter(name="--format", help="The kind of file.")] = "svg",
    out: Annotated[Path, Parameter(name=["--out", "-o"], help="The folder to write to.")] = Path("figures"),
) -> None:
    """Draw figures for papers from runs.

    There is one panel per attack, with all estimators and the spread over seeds.

    Where runs differ in more than attack, estimator and seed, each such setting gets its own figure.

    Example: f2ed figures runs/demo --format pdf -o figures
    """
    console = Console(highlight=False)
    for path in write_figures(read_some(runs, console), out, kind):
        console.print(f"{path}", soft_wrap=True, markup=False)
