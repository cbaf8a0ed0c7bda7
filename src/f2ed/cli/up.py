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
from typing import Annotated, Any, Literal

import msgspec
from cyclopts import Parameter
from msgspec import Meta
from rich.console import Console

from f2ed.cli.roster_helpers import read_rule
from f2ed.core.errors import ConfigError, F2edError
from f2ed.flower.checkpoint import save_model
from f2ed.flower.local_deployment import Deployment
from f2ed.flower.trial_roster import TrialHelpers
from f2ed.protocol.helpers import HelpersProtocol

__all__ = ["up"]

_GROUP = 3
"""Clients in a group with helpers."""


def up(
    app: Annotated[Path, Parameter(help="The folder of a Flower app that uses f2ed.")],
    *,
    nodes: Annotated[
        int | None,
        Parameter(help="Number of SuperNodes to start, each about 300 MB; by default the app's number, or 6."),
    ] = None,
    shards: Annotated[int | None, Parameter(help="Number of shards; by default the app's number, or 2.")] = None,
    protocol: Annotated[
        Literal["shards", "helpers"], Parameter(help="Hide updates in shards, or with a mixer and a judge.")
    ] = "shards",
    rule: Annotated[
        str, Parameter(help="With helpers: the estimator that the judge applies, as TOML; FilterL2 by default.")
    ] = "",
    clip_norm: Annotated[float, Parameter(help="With helpers: the norm to which updates are clipped.")] = 10.0,
    config: Annotated[
        tuple[str, ...], Parameter(name=["--config", "-c"], negative="", help="A setting of the app, name=value.")
    ] = (),
    folder: Annotated[Path | None, Parameter(help="Keep keys, logs, records and the model here.")] = None,
    verbose: Annotated[bool, Parameter(negative="", help="Show everything that Flower logs.")] = False,
) -> None:
    """Start a Flower deployment on this machine and run an app.

    It has a SuperLink and SuperNodes on loopback, with TLS and node authentication.

    The nodes are started like f2ed node: the roster approves this app as it is now, and no other. The exit status is 1
    if the run fails.

    With helpers there are three operators, each with a folder and keys of its own: server, mixer and judge. The app
    takes the server's key from its setting f2ed-server-key, and needs f2ed-checkpoint.

    For a trial only: all keys and the roster are created in one place. Every process is stopped at the end, also on
    Ctrl-C.

    Example: f2ed up examples/04_flower

    Example: f2ed up examples/05_flower_malicious

    Example: f2ed up examples/04_flower --protocol helpers --nodes 12

    Example: f2ed up examples/04_flower --nodes 12 --shards 4 -c malicious=1 -c contamination=0.25
    """
    console = Console(highlight=False, markup=False, soft_wrap=True)
    known, wanted = _settings(app)
    nodes = nodes or wanted.nodes
    helpers = _helpers(known, nodes, shards, rule, clip_norm) if protocol == "helpers" else None
    shards = nodes // _GROUP if helpers else shards or wanted.shards
    given = dict(_setting(each, known) for each in config)
    if nodes < 3 * shards:
        raise ConfigError(f"{nodes} nodes in {shards} shards leave fewer than 3 in one; use --nodes {3 * shards}")
    began = time.monotonic()
    with _place(folder) as place, _terminated_like_interrupted():
        records = place / "run.jsonl"
        given |= {"f2ed-roster": str(place / "roster.json")}
        given |= {"f2ed-records": str(records)} if "f2ed-records" in known else {}
        checkpoint = place / "model.checkpoint"
        given |= {"f2ed-checkpoint": str(checkpoint)} if "f2ed-checkpoint" in known else {}
        given |= {} if helpers is None else {"f2ed-server-key": str(place / "server" / "server.key")}
        deployment = Deployment(
            place,
            nodes=nodes,
            shards=shards,
            min_crowd=nodes // shards,
            app=app.resolve(),
            helpers=helpers,
            log=console.print,
        )
        failure = None
        with deployment:
            more = "" if helpers is None else ", a mixer and a judge"
            console.print(f"{nodes} SuperNodes{more} are starting; running {app.name}")
            try:
                for line in deployment.run(app.resolve(), given):
                    if verbose or "f2ed:" in line or "rror" in line:
                        console.print(line.partition("f2ed: ")[2] or line if not verbose else line)
            except F2edError as error:
                failure = error
        console.print(f"{_ended(failure)} {time.monotonic() - began:.0f} s; all processes are stopped.")
        if folder is not None and checkpoint.exists():
            save_model(checkpoint, place / "model.npz")
            console.print(f"The model is in {place / 'model.npz'}, for numpy.load.")
        if failure is None and "f2ed-records" in known and not records.exists():
            failure = ConfigError("the app left no records: did it run? Use --verbose to see what Flower logs")
        console.print(_next_step(folder, records))
        if failure is not None:
            raise failure


def _helpers(known: dict[str, Any], nodes: int, shards: int | None, rule: str, clip_norm: float) -> TrialHelpers:
    """Return how updates are hidden with helpers; refuse an app that cannot be the server's, and shards."""
    if shards is not None:
        raise ConfigError(f"--shards {shards} with --protocol helpers: there are none; leave it out")
    for setting, use in (("f2ed-server-key", "server_key"), ("f2ed-checkpoint", "checkpoint")):
        if setting not in known:
            raise ConfigError(
                f'the app has no setting {setting}; add {setting} = "" under [tool.flwr.app.config], and give it to '
                f"F2ed({use}=…)"
            )
    if nodes < 2 * _GROUP:
        raise ConfigError(f"{nodes} nodes make fewer than two groups of {_GROUP}; use --nodes {2 * _GROUP}")
    settings = HelpersProtocol(size=_GROUP)
    return TrialHelpers(settings, read_rule(rule), clip_norm) if rule else TrialHelpers(settings, clip_norm=clip_norm)


def _ended(failure: F2edError | None) -> str:
    return "Done in" if failure is None else "FAILED after"


def _next_step(folder: Path | None, records: Path) -> str:
    if folder is None:
        return "Use --folder to keep the model, the records, the logs and the keys."
    if not records.exists():
        return f"The logs of all processes are in {folder}."
    return f"The records are in {records}. Look at them: f2ed report {records}"


class _Wanted(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How an app is started by default: the table [tool.f2ed.up] of its pyproject.toml."""

    nodes: Annotated[int, Meta(ge=1)] = 6
    shards: Annotated[int, Meta(ge=1)] = 2


def _settings(app: Path) -> tuple[dict[str, Any], _Wanted]:
    """Return the app's own settings, and its default numbers of nodes and shards."""
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
        raise ConfigError(f"{text!r} is not a setting of the app; it has: {', '.join(known)}")
    try:
        return name, tomllib.loads(f"x = {value}")["x"]
    except tomllib.TOMLDecodeError:
        return name, value


@contextmanager
def _place(folder: Path | None) -> Iterator[Path]:
    """Use the given folder, or a temporary one."""
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
    """Let SIGTERM, or a terminal that closes, unwind like Ctrl-C, so that all processes are stopped."""

    def stop(number: int, _frame: FrameType | None) -> None:
        sys.exit(128 + number)

    # Under nohup it is meant to outlive the terminal.
    numbers = [each for each in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(each) != signal.SIG_IGN]
    before = {each: signal.signal(each, stop) for each in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
