"""`f2ed report`: one page about runs."""

import sys
from pathlib import Path
from typing import Annotated

import msgspec
from cyclopts import Parameter
from rich.console import Console

from f2ed.cli.problems import print_problems
from f2ed.core.errors import ConfigError
from f2ed.report import write_page

__all__ = ["report"]


def report(
    *runs: Annotated[Path, Parameter(help="Folders with records, record files or archives (.jsonl, .jsonl.xz).")],
    out: Annotated[Path, Parameter(name=["--out", "-o"], help="The page to write.")] = Path("report.html"),
    title: Annotated[str, Parameter(help="The page's heading; by default the folder's name.")] = "",
    json: Annotated[bool, Parameter(negative="", help="Print JSON for a program to read.")] = False,
) -> None:
    """Write an HTML report of runs.

    The page is a single file that needs no network. Records that are broken are named on it; the rest is shown.

    Example: f2ed report runs/demo -o demo.html
    """
    if not runs:
        raise ConfigError("no runs given; name folders or record files, as in: f2ed report runs/demo")
    summary = write_page(runs, out, title=title)
    if json:
        sys.stdout.write(msgspec.json.encode(summary._asdict(), enc_hook=str).decode() + "\n")
        return
    console = Console(highlight=False)
    console.print(summary.headline, style="bold", soft_wrap=True)
    print_problems(summary.problems, console)
    console.print(
        f"{summary.runs} {'run is' if summary.runs == 1 else 'runs are'} on {out}; open it in a browser.",
        soft_wrap=True,
        markup=False,
    )
