"""`f2ed search`: for each rule the attack that hurts it most, within a budget of runs."""

import sys
import time
import tomllib
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import msgspec
from cyclopts import Parameter
from rich.console import Console

from f2ed.cli.reproduce import print_table
from f2ed.cli.search_board import follow
from f2ed.core.errors import ConfigError
from f2ed.experiments import ExperimentFile, find, prepare, read
from f2ed.experiments.search import OBJECTIVES, Found, Objective, Plan, Search, table, targets_of
from f2ed.experiments.search.workers import Here, Processes, Workers
from f2ed.learning.device import found_device

__all__ = ["search"]


def search(
    file: Annotated[
        Path, Parameter(help="An experiment file, or the name of a shipped one, with the setting to attack.")
    ] = Path("search"),
    /,
    *,
    rule: Annotated[
        tuple[str, ...],
        Parameter(
            negative="",
            help="A rule to attack: a name from the file, a kind, or a table such as '{kind = \"krum\"}'; repeat it "
            "for several. All rules of the file if left out.",
        ),
    ] = (),
    budget: Annotated[int, Parameter(help="Attacks to try on each rule by each objective.")] = 40,
    objective: Annotated[
        tuple[Objective, ...],
        Parameter(negative="", help="What to maximize: the backdoor planted, accuracy lost; both, apart, by default."),
    ] = OBJECTIVES,
    part: Annotated[
        tuple[str, ...], Parameter(negative="", help="Part of the file to attack; the first if left out.")
    ] = (),
    attack: Annotated[tuple[str, ...], Parameter(negative="", help="Try only this kind; may be repeated.")] = (),
    rounds: Annotated[int | None, Parameter(help="Number of rounds, instead of the file's.")] = None,
    seed: Annotated[int, Parameter(help="Random seed of the proposals.")] = 0,
    known: Annotated[bool, Parameter(help="Begin with the attacks that are usually listed.")] = True,
    confirm: Annotated[int, Parameter(help="Run what was found with this many further seeds.")] = 0,
    minutes: Annotated[float | None, Parameter(help="Propose nothing more after this time.")] = None,
    jobs: Annotated[int, Parameter(help="Number of trials in parallel, each in its own process.")] = 1,
    device: Annotated[str, Parameter(help="cpu, cuda, cuda:1 …; auto uses a GPU if there is one.")] = "auto",
    data: Annotated[Path | None, Parameter(help="Look for data sets here first.")] = None,
    out: Annotated[Path, Parameter(help="Where to put the folder of results, named after the file.")] = Path("runs"),
    json: Annotated[
        bool, Parameter(negative="", help="Print the results as JSON; progress to standard error.")
    ] = False,
) -> None:
    """Search for the attack that hurts a rule most.

    Each trial is a whole run with an attack that Optuna (extra `search`) proposes: its kind, boost, poisoned share,
    blending, learning rate, epochs, first round, and the shards it sits in. Hopeless trials are stopped early.
    Backdoors and accuracy lost are searched for apart. Of a backdoor counts what was planted: its success, minus
    that of its trigger against a model that was never poisoned. Give the same command again to resume, or to continue
    with a larger budget. What was found is saved as experiment files that repeat it: f2ed run FILE.

    Example: f2ed search --rule filter-l2 --budget 40

    Example: f2ed search --rule fence --rule median --part few-classes --objective backdoor --jobs 2

    Example: f2ed search my_setting.toml --device cuda --jobs 8 --confirm 2
    """
    # With --json, standard output is for a program and progress goes to standard error.
    console = Console(highlight=False, stderr=json)
    device = str(found_device(device))
    if jobs < 1:
        raise ConfigError(f"--jobs {jobs}: use at least 1")
    settings = _settings(read(find(file)), rule=rule, part=part, rounds=rounds)
    with console.status("Looking for the data …"):
        cells, loaded = prepare(settings, folder=data, notify=partial(console.print, soft_wrap=True))
    seconds = None if minutes is None else 60 * minutes
    plan = Plan(targets_of(cells), tuple(dict.fromkeys(objective)), budget, attack, seed, known, confirm, seconds)
    folder = out / file.stem
    searched = Search(plan, folder)
    began = time.monotonic()
    workers: Workers
    workers = Here(loaded, device=device) if jobs == 1 else Processes(jobs, device=device, folder=data)
    try:
        follow(searched, searched.run(workers), console)
    except KeyboardInterrupt:
        _save(searched.results(), folder)
        console.print(f"Interrupted. Nothing is lost: run the same command to resume ({folder}).", soft_wrap=True)
        sys.exit(130)
    _conclude(searched.results(), folder, console, json=json, seconds=time.monotonic() - began)


def _settings(
    file: ExperimentFile, *, rule: tuple[str, ...], part: tuple[str, ...], rounds: int | None
) -> ExperimentFile:
    """Return the file with the chosen rules and parts, without attacks."""
    changes: dict[str, Any] = {"attack": "none"}
    if rule:
        changes["estimator"] = [_rule(each) for each in rule]
    if rounds is not None:
        changes["rounds"] = rounds
    names = part or tuple(name for name, _ in file.parts[:1])
    return file.only_parts(names).changed(**changes)


def _rule(text: str) -> Any:
    """Return a name, or the table that is written in its place."""
    if not text.lstrip().startswith("{"):
        return text
    try:
        return tomllib.loads(f"rule = {text}")["rule"]
    except tomllib.TOMLDecodeError as wrong:
        raise ConfigError(f"--rule {text}: this is not a TOML table: {wrong}") from None


def _conclude(found: list[Found], folder: Path, console: Console, *, json: bool, seconds: float) -> None:
    content = _save(found, folder)
    if json:
        sys.stdout.write(content.decode())
        return
    print_table(table(found), console)
    for each in found:
        if each.file:
            console.print(f"{each.rule}, {each.objective}: f2ed run {each.file}", soft_wrap=True)
    console.print(
        f"{sum(each.trials for each in found)} attacks tried, {sum(each.stopped for each in found)} of them stopped "
        f"early; {seconds / 60:.1f} minutes. A rule may fall to an attack that was not tried.\nResults: {folder}",
        soft_wrap=True,
    )


def _save(found: list[Found], folder: Path) -> bytes:
    """Write what was found so far, as JSON and as a table; return the former."""
    content = msgspec.json.format(msgspec.json.encode(found)) + b"\n"
    (folder / "found.json").write_bytes(content)
    (folder / "table.md").write_text(table(found).markdown(), encoding="utf-8")
    return content
