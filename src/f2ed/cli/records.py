"""`f2ed records`: bring records up to date, pack them into archives, and sum them up in one table."""

import gzip
from pathlib import Path
from typing import Annotated, Any, get_args

import msgspec
from cyclopts import App, Parameter
from rich.console import Console

from f2ed.attacks import AnyAttack
from f2ed.core.errors import ConfigError
from f2ed.core.files import write_atomic
from f2ed.estimators import AnyEstimator
from f2ed.records import RunLog, holds_records, read_all
from f2ed.records.archive import distinct, packed, summary_table
from f2ed.records.migration import migrate_header
from f2ed.records.plugin import title_of
from f2ed.records.reader import experiment_name
from f2ed.records.schema import RunHeader, lines

__all__ = ["app"]

app = App(name="records", help="Migrate records, and pack them into archives.")


@app.command
def migrate(
    *paths: Annotated[Path, Parameter(help="Folders with records, record files or archives.")],
    out: Annotated[
        Path | None, Parameter(name=["--out", "-o"], help="Write all runs into this archive (.jsonl.xz) instead.")
    ] = None,
) -> None:
    """Rewrite records in the current format, in place or into one archive.

    Renamed settings, kinds and labels get their current names, and digests are recomputed. Migrating twice changes
    nothing. An archive holds a run once: of several with the same settings the one with most rounds, or else the last.

    Example: f2ed records migrate runs/fig1_iid -o results/fig1_iid.jsonl.xz
    """
    files = [file for path in paths for file in _files(path)]
    if not files:
        raise ConfigError("no records given; name folders or record files, as in: f2ed records migrate runs/demo")
    console = Console(highlight=False)
    if out is not None:
        if not out.name.endswith(".jsonl.xz"):
            raise ConfigError(f"{out} is not the name of an archive; end it in .jsonl.xz")
        given = [_current(log) for file in files for log in read_all(file)]
        logs = distinct(given)
        write_atomic(out, packed(logs), mode=0o644)
        twice = f"; {len(given) - len(logs)} were given more than once" if len(given) > len(logs) else ""
        console.print(f"{len(logs)} runs are in {out}{twice}", soft_wrap=True, markup=False)
        return
    for file in files:
        logs = [_current(log) for log in read_all(file)]
        write_atomic(file, _written(file, logs), mode=0o644)
        console.print(f"{file}: {len(logs)} runs", soft_wrap=True, markup=False)


@app.command
def summary(
    *paths: Annotated[Path, Parameter(help="Archives, or folders with archives.")],
    out: Annotated[Path, Parameter(name=["--out", "-o"], help="The table to write.")] = Path("summary.csv"),
) -> None:
    """Write a CSV table with one row per run: its settings, and the numbers after its last round.

    The same runs give the same table, whatever the order of the files: after a merge, write it again.

    Example: f2ed records summary results -o results/summary.csv
    """
    files = [file for path in paths for file in _files(path)]
    if not files:
        raise ConfigError("no records given; name archives or folders, as in: f2ed records summary results")
    found: dict[str, list[RunLog]] = {}
    for file in files:
        found.setdefault(experiment_name(file), []).extend(read_all(file))
    write_atomic(out, summary_table(found).encode(), mode=0o644)
    Console(highlight=False).print(
        f"{sum(map(len, found.values()))} runs of {len(found)} experiments are in {out}", soft_wrap=True, markup=False
    )


def _files(path: Path) -> list[Path]:
    if path.is_dir():
        return [file for file in sorted(path.rglob("*")) if file.is_file() and holds_records(file)]
    if not path.is_file():
        raise ConfigError(f"{path} does not exist; name a folder with records, a record file or an archive")
    return [path]


def _current(log: RunLog) -> RunLog:
    header = migrate_header(msgspec.to_builtins(log.header), _described)
    return log._replace(header=msgspec.convert(header, RunHeader))


def _described(setting: str, kind: str) -> dict[str, str]:
    """Return the title, family and paper of a plug-in; one that is no longer there has the title of its kind."""
    union: Any = AnyEstimator if setting == "estimator" else AnyAttack
    for each in get_args(union):
        if each.__struct_config__.tag == kind:
            return {"title": each.title, "family": each.family, "paper": each.paper}
    return {"title": title_of(kind)}


def _written(file: Path, logs: list[RunLog]) -> bytes:
    if file.suffix == ".xz":
        return packed(logs)
    content = b"".join(map(lines, logs))
    return gzip.compress(content, mtime=0) if file.suffix == ".gz" else content
