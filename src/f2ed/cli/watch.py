"""`f2ed watch`: the report, live."""

import threading
import webbrowser
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from rich.console import Console

from f2ed.report.watch import LOOPBACK, serve

__all__ = ["watch"]


def watch(
    runs: Annotated[
        Path, Parameter(help="The folder that records are written to, such as runs/demo, or one record file (.jsonl).")
    ],
    /,
    *,
    port: Annotated[int, Parameter(help="The port to listen on; 0 picks a free one.")] = 8642,
    host: Annotated[
        str, Parameter(help="The address to listen on; any but the default exposes the page to others.")
    ] = LOOPBACK,
    browser: Annotated[bool, Parameter(name="--open", negative="", help="Open the page in a browser.")] = False,
) -> None:
    """Serve a live HTML report of runs; Ctrl-C stops it.

    It can be started before the run or after it, and keeps working while runs end, resume or are added. The audit file
    of a deployment can be watched the same way.

    Example: f2ed watch runs/demo

    Example: f2ed watch federation/audit.jsonl
    """
    console = Console(highlight=False)
    with serve(runs, port, host=host) as url:
        if not runs.exists():
            console.print(f"{runs} does not exist yet; the page waits for it.", soft_wrap=True, markup=False)
        if host != LOOPBACK:
            console.print(
                f"Anyone who can reach {host} can view this page (no authentication).", style="yellow", soft_wrap=True
            )
        console.print(f"Watching {runs} at {url} (Ctrl-C stops)", soft_wrap=True, markup=False)
        if browser:
            webbrowser.open(url)
        _until_interrupted()


def _until_interrupted() -> None:
    threading.Event().wait()
