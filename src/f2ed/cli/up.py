"""`f2ed up`: a real deployment on this machine, in one command."""

import signal
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Annotated, Any

import msgspec
from cyclopts import Parameter
from msgspec import Meta
from rich.console import Console

from f2ed.core.errors import ConfigError
from f2ed.flower.local_deployment import Deployment

__all__ = ["up"]


def up(
    app: Annotated[Path, Parameter(help="The folder of a Flower app that uses f2ed.")],
    *,
    nodes: Annotated[
        int | None,
        Parameter(help="How many SuperNodes to start, each about 300 MB; by default the app's number, or 6."),
    ] = None,
    shards: Annotated[
        int | None, Parameter(help="Into how many shards to deal them; by default the app's number, or 2.")
    ] = None,
    config: Annotated[
        tuple[str, ...], Parameter(name=["--config", "-c"], negative="", help="A setting of the app, name=value.")
    ] = (),
    folder: Annotated[Path | None, Parameter(help="Keep keys, logs and audit lines here.")] = None,
    verbose: Annotated[bool, Parameter(negative="", help="Show all that Flower says.")] = False,
) -> None:
    """Start a Flower deployment on this machine and run an app.

    It has a SuperLink and SuperNodes on loopback, with TLS and node authentication.

    Keys and a roster are made for the occasion, in one place, as only a trial may do it. Everything that was started
    is ended, also on Ctrl-C.

    Example: f2ed up examples/04_flower

    Example: f2ed up examples/05_flower_malicious

    Example: f2ed up examples/04_flower --nodes 12 --shards 4 -c malicious=1 -c epsilon=0.25
    """
    console = Console(highlight=False, markup=False, soft_wrap=True)
    known, wanted = _settings(app)
    nodes, shards = nodes or wanted.nodes, shards or wanted.shards
    given = dict(_setting(each, known) for each in config)
    if nodes < 3 * shards:
        raise ConfigError(f"{nodes} nodes in {shards} shards leave fewer than 3 in one; use --nodes {3 * shards}")
    began = time.monotonic()
    with _place(folder) as place, _terminated_like_interrupted():
        audit = place / "audit.jsonl"
        given |= {"f2ed-roster": str(place / "roster.json")}
        given |= {"f2ed-audit": str(audit)} if "f2ed-audit" in known else {}
        deployment = Deployment(place, nodes=nodes, shards=shards, min_crowd=nodes // shards, say=console.print)
        with deployment:
            console.print(f"{nodes} SuperNodes are starting; running {app.name}")
            for line in deployment.run(app.resolve(), given):
                if verbose or "f2ed:" in line or "rror" in line:
                    console.print(line.partition("f2ed: ")[2] or line if not verbose else line)
        console.print(f"Done in {time.monotonic() - began:.0f} s; everything that was started is ended.")
        if audit.exists():
            console.print(f"{len(audit.read_bytes().splitlines())} audit lines{_kept(folder, audit)}")
        if not audit.exists() and "f2ed-audit" in known:
            raise ConfigError("the app left no audit line: did it run? Use --verbose to see what Flower says")


def _kept(folder: Path | None, audit: Path) -> str:
    return f": {audit}" if folder else " (use --folder to keep them, with logs and keys)"


class _Wanted(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What an app wants to be started with: the table [tool.f2ed.up] of its pyproject.toml."""

    nodes: Annotated[int, Meta(ge=1)] = 6
    shards: Annotated[int, Meta(ge=1)] = 2


def _settings(app: Path) -> tuple[dict[str, Any], _Wanted]:
    """Return the app's own settings, and how many nodes and shards it wants."""
    try:
        with (app / "pyproject.toml").open("rb") as file:
            tools = tomllib.load(file)["tool"]
        flower = tools["flwr"]["app"]
        wanted = msgspec.convert(tools.get("f2ed", {}).get("up", {}), _Wanted)
    except OSError as error:
        raise ConfigError(f"{app} is not a Flower app: its pyproject.toml cannot be read ({error.strerror})") from None
    except (KeyError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"{app}/pyproject.toml describes no Flower app: {error}") from None
    except msgspec.ValidationError as error:
        raise ConfigError(f"{app}/pyproject.toml, [tool.f2ed.up]: {error}; it may state nodes and shards") from None
    settings: dict[str, Any] = flower.get("config", {})
    if "f2ed-roster" not in settings:
        raise ConfigError(
            f'{app}/pyproject.toml has no setting f2ed-roster; add f2ed-roster = "" under [tool.flwr.app.config] and '
            "give it to F2ed(roster=…)"
        )
    return settings, wanted


def _setting(text: str, known: dict[str, Any]) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals or name not in known:
        raise ConfigError(f"{text!r} sets nothing that the app has; it has: {', '.join(known)}")
    try:
        return name, tomllib.loads(f"x = {value}")["x"]
    except tomllib.TOMLDecodeError:
        return name, value


@contextmanager
def _place(folder: Path | None) -> Iterator[Path]:
    """Use the folder that was named, or one that is gone afterwards."""
    if folder is not None:
        folder = folder.resolve()
        if folder.exists() and any(folder.iterdir()):
            raise ConfigError(f"{folder} is not empty; name a new folder for --folder")
        folder.mkdir(parents=True, exist_ok=True)
        yield folder
        return
    with tempfile.TemporaryDirectory(prefix="f2ed-up-", ignore_cleanup_errors=True) as temporary:
        yield Path(temporary)


@contextmanager
def _terminated_like_interrupted() -> Iterator[None]:
    """Let a request to end, or a terminal that closes, unwind like Ctrl-C, so that what was started is ended."""

    def stop(number: int, _frame: FrameType | None) -> None:
        sys.exit(128 + number)

    # Whoever started this with nohup wants it to outlive the terminal.
    numbers = [each for each in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(each) != signal.SIG_IGN]
    before = {each: signal.signal(each, stop) for each in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
