"""`f2ed list`: what experiment files can name, and the experiments that come with the package."""

import sys
import tomllib
from collections.abc import Callable, Iterator
from typing import Annotated, Any, Literal, get_args

import msgspec
from cyclopts import Parameter
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from f2ed.attacks import AnyAttack
from f2ed.cli.setting import Setting, settings_of
from f2ed.core.errors import ConfigError, MissingExtra
from f2ed.core.rate_schedules import AnyRateSchedule
from f2ed.core.shipped import shipped
from f2ed.estimators import AnyEstimator
from f2ed.protocol.aggregation import AnyServerOptimizer
from f2ed.protocol.sharding import Schedule

__all__ = ["show"]

_COMMANDS = {
    "AnyDataset": "datasets",
    "AnyModel": "models",
    "AnyLoss": "losses",
    "METRICS": "metrics",
    "AnyPartition": "partitions",
}
_DESCRIPTION = ("title", "family", "paper", "aliases")
Kind = Literal[
    "estimators",
    "attacks",
    "datasets",
    "models",
    "losses",
    "metrics",
    "partitions",
    "schedules",
    "server-optimizers",
    "rate-schedules",
    "experiments",
]


class Entry(msgspec.Struct, frozen=True, omit_defaults=True):
    """One thing that an experiment file can name, or one experiment file."""

    kind: str
    name: str
    what: str
    title: str = ""
    family: str = ""
    paper: str = ""
    aliases: tuple[str, ...] = ()
    settings: tuple[Setting, ...] = ()
    path: str = ""


def show(
    kind: Annotated[Kind | None, Parameter(help="What to list; everything if left out.")] = None,
    /,
    *,
    json: Annotated[bool, Parameter(negative="", help="Print JSON for a program to read.")] = False,
) -> None:
    """List what an experiment file can name, and shipped files.

    Example: f2ed list attacks

    Example: f2ed list experiments
    """
    entries = list(_everything() if kind is None else _ENTRIES[kind](kind))
    if json:
        sys.stdout.write(msgspec.json.format(msgspec.json.encode(entries)).decode() + "\n")
        return
    console = Console(highlight=False)
    for position, each in enumerate(dict.fromkeys(entry.kind for entry in entries)):
        console.print("\n" * (position > 0) + each.upper(), style="bold")
        for entry in entries:
            if entry.kind == each:
                _print(entry, console)


def _print(entry: Entry, console: Console) -> None:
    about = " · ".join(filter(None, (entry.title, entry.family, entry.paper, *_also(entry))))
    console.print(Text.assemble("\n", (entry.name, "bold cyan"), "  ", (about, "dim")))
    console.print(Padding(Text(entry.what), (0, 0, 0, 2), expand=False))
    table = Table.grid(padding=(0, 2))
    for setting in entry.settings:
        table.add_row(Text(setting.name, "cyan"), Text(setting.type), Text(setting.default_text, "dim"))
    if entry.settings:
        console.print(Padding(table, (0, 0, 0, 4), expand=False))


def _also(entry: Entry) -> Iterator[str]:
    if entry.aliases:
        yield f"also {', '.join(entry.aliases)}"


def _everything() -> Iterator[Entry]:
    """Yield all entries; what needs an extra that is not installed is named on standard error."""
    for kind in get_args(Kind):
        try:
            yield from _ENTRIES[kind](kind)
        except MissingExtra as missing:
            sys.stderr.write(f"{kind} are left out: {missing}\n")


def _of_union(registry: Callable[[], Any]) -> Callable[[str], Iterator[Entry]]:
    def entries(kind: str) -> Iterator[Entry]:
        for each in get_args(registry()):
            details = {name: getattr(each, name) for name in _DESCRIPTION if hasattr(each, name)}
            yield Entry(kind, str(each.__struct_config__.tag), _sentence(each), settings=settings_of(each), **details)

    return entries


def _learning(name: str) -> Callable[[], Any]:
    """Return a registry of the part that needs torch, which is imported when it is used."""

    def registry() -> Any:
        try:
            from f2ed import learning  # noqa: PLC0415  optional
        except ModuleNotFoundError as missing:
            if missing.name != "torch":
                raise
            raise MissingExtra(f"f2ed list {_COMMANDS[name]}", "train") from None
        return getattr(learning, name)

    return registry


def _metrics(kind: str) -> Iterator[Entry]:
    for name, metric in _learning("METRICS")().items():
        yield Entry(kind, name, _sentence(metric))


def _experiments(kind: str) -> Iterator[Entry]:
    for name, path in shipped().items():
        try:
            title = tomllib.loads(path.read_text("utf-8")).get("title", "")
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise ConfigError(f"{path} is not a TOML file: {error}") from None
        yield Entry(kind, name, str(title), path=str(path))


_ENTRIES: dict[str, Callable[[str], Iterator[Entry]]] = {
    "estimators": _of_union(lambda: AnyEstimator),
    "attacks": _of_union(lambda: AnyAttack),
    "datasets": _of_union(_learning("AnyDataset")),
    "models": _of_union(_learning("AnyModel")),
    "losses": _of_union(_learning("AnyLoss")),
    "metrics": _metrics,
    "partitions": _of_union(_learning("AnyPartition")),
    "schedules": _of_union(lambda: Schedule),
    "server-optimizers": _of_union(lambda: AnyServerOptimizer),
    "rate-schedules": _of_union(lambda: AnyRateSchedule),
    "experiments": _experiments,
}


def _sentence(each: Any) -> str:
    """Return the first paragraph of the docstring, whole."""
    return " ".join((each.__doc__ or "").split("\n\n")[0].split())
