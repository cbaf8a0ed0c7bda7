"""`f2ed list`: what experiment files can name."""

import re
import sys
from collections.abc import Callable
from typing import Annotated, Any, Literal, get_args

import msgspec
from cyclopts import Parameter
from rich import box
from rich.console import Console
from rich.table import Table

from f2ed.attacks import AnyAttack
from f2ed.estimators import AnyEstimator
from f2ed.protocol.sharding import Schedule

__all__ = ["show"]

Kind = Literal["estimators", "attacks", "datasets", "models", "partitions", "schedules"]


class Entry(msgspec.Struct, frozen=True):
    """One thing that an experiment file can name; `settings` are its own keys, with `?` where they may be left out."""

    kind: str
    name: str
    what: str
    settings: tuple[str, ...]


def show(
    kind: Annotated[Kind | None, Parameter(help="What to list; everything if left out.")] = None,
    /,
    *,
    json: Annotated[bool, Parameter(negative="", help="Print JSON for a program to read.")] = False,
) -> None:
    """List the estimators, attacks, data sets, models, partitions and schedules that an experiment file can name.

    Example: f2ed list attacks
    """
    entries = [entry for each in get_args(Kind) if kind in (None, each) for entry in _entries(each)]
    if json:
        sys.stdout.write(msgspec.json.format(msgspec.json.encode(entries)).decode() + "\n")
        return
    console = Console(highlight=False)
    for each in dict.fromkeys(entry.kind for entry in entries):
        table = Table(box=box.SIMPLE_HEAD, title=each, title_justify="left", title_style="bold")
        table.add_column("name", no_wrap=True)
        table.add_column("what it does")
        table.add_column("settings", style="dim")
        for entry in entries:
            if entry.kind == each:
                table.add_row(entry.name, entry.what, " ".join(entry.settings))
        console.print(table)


def _entries(kind: Kind) -> list[Entry]:
    return [
        Entry(kind, str(each.__struct_config__.tag), _first_sentence(each), _settings(each))
        for each in get_args(_REGISTRIES[kind]())
    ]


def _learning(name: str) -> Callable[[], Any]:
    """Return a registry of the part that needs torch, which is imported when it is asked for."""

    def registry() -> Any:
        from f2ed import learning  # noqa: PLC0415  optional

        return getattr(learning, name)

    return registry


_REGISTRIES: dict[Kind, Callable[[], Any]] = {
    "estimators": lambda: AnyEstimator,
    "attacks": lambda: AnyAttack,
    "datasets": _learning("AnyDataset"),
    "models": _learning("AnyModel"),
    "partitions": _learning("AnyPartition"),
    "schedules": lambda: Schedule,
}


def _first_sentence(each: type) -> str:
    text = " ".join((each.__doc__ or "").split())
    return re.split(r"(?<=[^.\s]{2}[.])\s", text, maxsplit=1)[0].rstrip(".")


def _settings(each: type[msgspec.Struct]) -> tuple[str, ...]:
    return tuple(field.encode_name + ("" if field.required else "?") for field in msgspec.structs.fields(each))
