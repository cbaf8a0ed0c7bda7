"""`f2ed watch`: the page about runs, live."""

import threading
import webbrowser
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from rich.console import Console

from f2ed.core.errors import ConfigError
from f2ed.report.watch import LOOPBACK, serve

__all__ = ["watch"]


def watch(
    folder: Annotated[Path, Parameter(help="Where records are written, such as runs/demo; sub-folders count.")],
    /,
    *,
    port: Annotated[int, Parameter(help="The port to listen on; 0 is any that is free.")] = 8642,
    host: Annotated[
        str, Parameter(help="The address to listen on; others than this machine's own let others look.")
    ] = LOOPBACK,
    browser: Annotated[bool, Parameter(name="--open", negative="", help="Open the page in a browser.")] = False,
) -> None:
    """Serve a live HTML report of runs; Ctrl-C stops it.

    It can be started before the run or after it, and stays while runs end, start again or are added.

    Example: f2ed watch runs/demo
    """
    if folder.exists() and not folder.is_dir():
        raise ConfigError(f"{folder} is a file; name the folder it is in")
    console = Console(highlight=False)
    with serve(folder, port, host=host) as url:
        if not folder.exists():
            console.print(f"{folder} is not there yet; the page waits for it.", soft_wrap=True, markup=False)
        if host != LOOPBACK:
            console.print(f"Whoever can reach {host} can look: there is no password.", style="yellow", soft_wrap=True)
        console.print(f"Watching {folder} at {url} (Ctrl-C ends it)", soft_wrap=True, markup=False)
        if browser:
            webbrowser.open(url)
        _until_interrupted()


def _until_interrupted() -> None:
    threading.Event().wait()
