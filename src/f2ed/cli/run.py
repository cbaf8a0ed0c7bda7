"""`f2ed run`: an experiment file, with a live table, and a verdict at the end."""

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Annotated

import msgspec
from cyclopts import Parameter
from rich import box
from rich.console import Console
from rich.live import Live
from rich.table import Table

from f2ed.core.errors import ConfigError, MissingExtra
from f2ed.records import RunLog
from f2ed.report import write_page
from f2ed.report.watch import serve

try:
    import torch

    from f2ed.experiments import Cell, Event, File, Summary, expand, prepare, read, run_all, summarize
    from f2ed.experiments.parallel import run_in_processes
    from f2ed.experiments.runner import place
    from f2ed.simulation.leak_meter import warning
except ModuleNotFoundError as missing:
    if missing.name != "torch":
        raise
    raise MissingExtra("f2ed run", "train") from None

__all__ = ["carry_out", "run"]

_BETWEEN_LINES = 10.0
"""Seconds, where the output is no terminal."""


def run(
    file: Annotated[Path, Parameter(help="The experiment file, in TOML.")],
    /,
    *,
    device: Annotated[str, Parameter(help="cpu, cuda, cuda:1 …; auto is a GPU where there is one.")] = "auto",
    out: Annotated[Path, Parameter(help="Where the records go, in a folder with the file's name.")] = Path("runs"),
    only: Annotated[
        tuple[str, ...],
        Parameter(negative="", help="Run only those whose name contains this; given again, those that contain all."),
    ] = (),
    part: Annotated[
        tuple[str, ...], Parameter(negative="", help="Run only this part of the file; may be given again.")
    ] = (),
    jobs: Annotated[int, Parameter(help="How many runs at once, each in a process of its own.")] = 1,
    data: Annotated[Path | None, Parameter(help="Look for data sets here first.")] = None,
    rounds: Annotated[int | None, Parameter(help="Take so many rounds instead of the file's number.")] = None,
    watch: Annotated[
        bool, Parameter(negative="", help="Serve the live page meanwhile, on this machine alone.")
    ] = False,
    port: Annotated[int, Parameter(help="Where --watch listens; 0 is any port that is free.")] = 8642,
    strict: Annotated[
        bool, Parameter(negative="", help="Refuse a schedule of shards that exposes single clients.")
    ] = False,
    json: Annotated[bool, Parameter(negative="", help="Print the outcome as JSON for a program to read.")] = False,
) -> None:
    """Run the experiments of a file, side by side or one after another.

    Everything is checked before anything starts. Finished runs are not repeated, and a run that was interrupted, by
    Ctrl-C or otherwise, goes on where it was when the same command is given again. At the end come a verdict, a table
    and a page with the curves (the extra `report`); with --watch the page can be looked at from the start. A schedule
    that would show the server single clients within the planned rounds is warned of, and refused with --strict.

    Example: f2ed run experiments/demo.toml

    Example: f2ed run experiments/demo.toml --only filter-l2 --jobs 2

    Example: f2ed run experiments/demo.toml --watch
    """
    # Progress goes to standard error where standard output is for a program.
    console = Console(highlight=False, stderr=json)
    experiments = read(file).only_parts(part)
    if rounds is not None:
        experiments = experiments.changed(rounds=rounds)
    folder = out / file.stem
    chosen, logs = carry_out(
        experiments,
        folder,
        console,
        device=device,
        only=only,
        jobs=jobs,
        data=data,
        port=port if watch else None,
        strict=strict,
    )
    summary = summarize(logs)
    where: Path | None = folder / "index.html"
    files = [place(cell, folder) for cell in chosen]
    try:
        write_page(files, folder / "index.html", title=experiments.title, about=chosen[0].about)
    except MissingExtra as missing:
        console.print(f"No page was made: {missing}", soft_wrap=True, markup=False)
        where = None
    if json:
        found = {"outcomes": summary.outcomes, "verdict": summary.verdict, "records": folder, "page": where}
        sys.stdout.write(msgspec.json.format(msgspec.json.encode(found, enc_hook=str)).decode() + "\n")
    else:
        console.print(chosen[0].about, soft_wrap=True)
        _conclude(summary, folder, where, console)


def carry_out(
    experiments: File,
    folder: Path,
    console: Console,
    *,
    device: str,
    only: tuple[str, ...],
    jobs: int,
    data: Path | None,
    port: int | None = None,
    strict: bool = False,
) -> tuple[list[Cell], list[RunLog]]:
    """Run what is chosen of a file, showing how it goes, on a live page too if there is a port; leave on Ctrl-C."""
    device = _device(device)
    if jobs < 1:
        raise ConfigError(f"--jobs {jobs}: at least 1 run at once")
    with console.status("Looking for the data …") as status:

        def progress(name: str, done: int, total: int | None) -> None:
            status.update(f"Fetching {name}: {done / 1e6:.1f} MB" + (f" of {total / 1e6:.1f}" if total else ""))

        notify = partial(console.print, soft_wrap=True)
        chosen, loaded = prepare(experiments, only=only, folder=data, progress=progress, notify=notify)
    if not chosen:
        names = "; ".join(cell.name for cell in expand(experiments))
        raise ConfigError(
            f"--only {' and '.join(only)}: no run of {experiments.path} has that in its name; there are: {names}"
        )
    _judge_schedules(chosen, console, strict=strict)
    if jobs > 1 and len(chosen) > 1:
        events = run_in_processes(chosen, folder, jobs=min(jobs, len(chosen)), device=device, folder=data)
    else:
        events = run_all(chosen, folder, loaded=loaded, device=device, notify=notify)
    try:
        with serve(folder, port) if port is not None else nullcontext() as url:
            if url is not None:
                console.print(f"Watch the curves grow: {url}", soft_wrap=True)
            logs = _watch(chosen, events, console)
    except KeyboardInterrupt:
        console.print(f"Interrupted. Nothing is lost: the same command goes on from there ({folder}).", soft_wrap=True)
        sys.exit(130)
    return chosen, logs


def _device(wanted: str) -> str:
    if wanted == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        found = torch.device(wanted)
    except RuntimeError:
        raise ConfigError(f"--device {wanted}: there is no such device; use auto, cpu or cuda") from None
    if found.type == "cuda" and not torch.cuda.is_available():
        raise ConfigError(f"--device {wanted}: torch finds no GPU here; use cpu")
    return wanted


def _judge_schedules(cells: Sequence[Cell], console: Console, *, strict: bool) -> None:
    """Warn of schedules that would expose single clients within the planned rounds, or refuse them."""
    found: dict[str, list[str]] = {}
    for cell in cells:
        if (said := warning(cell.experiment)) is not None:
            found.setdefault(said, []).append(cell.name)
    for said, names in found.items():
        which = "every run" if len(names) == len(cells) else f"{len(names)} of {len(cells)} runs, such as {names[0]}"
        if strict:
            raise ConfigError(f"{which}: {said}")
        console.print(f"Warning, {which}: {said}", style="yellow", soft_wrap=True, markup=False)


class _Board:
    """What is known of every run, as a table."""

    def __init__(self, cells: Sequence[Cell]) -> None:
        self.cells = cells
        self.logs: dict[int, RunLog] = {}
        self.kinds: dict[int, str] = {}
        self.began = time.monotonic()
        self.taken = 0
        """Rounds taken by this command, those of earlier ones not counted."""

    def note(self, event: Event) -> None:
        self.logs[event.cell], self.kinds[event.cell] = event.log, event.kind
        self.taken += event.kind == "round"

    @property
    def left(self) -> float | None:
        """Seconds to go, by the pace so far."""
        if not self.taken:
            return None
        to_go = sum(
            cell.experiment.rounds - len(self.logs[index].rounds) if index in self.logs else cell.experiment.rounds
            for index, cell in enumerate(self.cells)
        )
        return (time.monotonic() - self.began) / self.taken * to_go

    def line(self, index: int) -> tuple[str, ...]:
        """Return name, rounds, accuracy, success and time a round takes."""
        cell, log = self.cells[index], self.logs.get(index)
        done = 0 if log is None else len(log.rounds)
        if log is None or not log.rounds:
            return cell.name, f"{done}/{cell.experiment.rounds}", "", "", ""
        last = log.rounds[-1]
        success = "" if last.success is None else f"{100 * last.success:.1f} %"
        state = "done before" if self.kinds.get(index) == "skipped" else f"{last.seconds.total:.2f} s"
        return cell.name, f"{done}/{cell.experiment.rounds}", f"{100 * log.final_accuracy:.1f} %", success, state

    def __rich__(self) -> Table:
        left = "" if self.left is None else f", about {_clock(self.left)} left"
        done = sum(kind in {"finished", "skipped"} for kind in self.kinds.values())
        caption = f"{done} of {len(self.cells)} runs done after {_clock(time.monotonic() - self.began)}{left}"
        table = Table(box=box.SIMPLE_HEAD, caption=caption, caption_justify="left")
        table.add_column("run")
        for column in ("round", "accuracy", "attack success", "a round takes"):
            table.add_column(column, justify="right")
        for index in self._shown():
            table.add_row(*self.line(index), style="dim" if index not in self.kinds else None)
        return table

    def _shown(self) -> list[int]:
        """Return all runs if they are few, else those at work and some around them."""
        every = list(range(len(self.cells)))
        if len(every) <= 30:
            return every
        at_work = [index for index in every if self.kinds.get(index) in {"began", "round"}]
        done = [index for index in every if self.kinds.get(index) in {"finished", "skipped"}][-15:]
        waiting = [index for index in every if index not in self.kinds]
        return sorted([*done, *at_work, *waiting[: 30 - len(done) - len(at_work)]])


def _watch(cells: Sequence[Cell], events: Iterator[Event], console: Console) -> list[RunLog]:
    """Show what happens while it happens; return the logs in the order of the cells."""
    board = _Board(cells)
    live = Live(board, console=console, refresh_per_second=4) if console.is_terminal else None
    last_line = 0.0
    with live or nullcontext():
        for event in events:
            board.note(event)
            if live is None and (event.kind != "round" or time.monotonic() - last_line > _BETWEEN_LINES):
                last_line = time.monotonic()
                _say(event, board, console)
    return [board.logs[index] for index in range(len(cells))]


def _say(event: Event, board: _Board, console: Console) -> None:
    name, rounds, accuracy, success, _ = board.line(event.cell)
    figures = f", accuracy {accuracy}" if accuracy else ""
    figures += f", attack success {success}" if success else ""
    left = f", about {_clock(board.left)} left" if event.kind == "round" and board.left is not None else ""
    said = {"began": "begins", "round": "is at", "finished": "is done", "skipped": "was done before"}[event.kind]
    console.print(f"{name} {said}: round {rounds}{figures}{left}", soft_wrap=True)


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"


def _conclude(summary: Summary, folder: Path, where: Path | None, console: Console) -> None:
    table = Table(box=box.SIMPLE_HEAD)
    axes = list(dict.fromkeys(axis for outcome in summary.outcomes for axis in outcome.arm))
    for axis in axes or ["run"]:
        table.add_column(axis)
    for column in ("accuracy", "lost", "attack success", "spoilt weight"):
        table.add_column(column, justify="right")
    for outcome in summary.outcomes:
        names = [outcome.arm.get(axis, "") for axis in axes] or [outcome.name]
        lost = "" if outcome.below is None else f"{round(outcome.below, 1) + 0.0:.1f} points"
        success = "" if outcome.success is None else f"{100 * outcome.success:.1f} %"
        believed = "" if outcome.attackers_believed is None else f"{100 * outcome.attackers_believed:.1f} %"
        table.add_row(*names, f"{100 * outcome.accuracy:.1f} %", lost, success, believed)
    console.print(table)
    console.print("lost: to the attack; spoilt weight: what shards with an attacker were given\n", style="dim")
    for sentence in summary.verdict:
        console.print(f"- {sentence}", soft_wrap=True)
    console.print(f"\nRecords: {folder}", soft_wrap=True)
    if where is not None:
        console.print(f"Look at the curves: {where}", soft_wrap=True)
