"""`f2ed run`: the experiments of a file, with a live table and a summary."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

import msgspec
from cyclopts import Parameter
from rich import box
from rich.console import Console
from rich.table import Table

from f2ed.cli.board import follow
from f2ed.core.errors import ConfigError, MissingExtra
from f2ed.experiments import Cell, Event, ExperimentFile, Summary, expand, find, prepare, read, run_all, summarize
from f2ed.experiments.on_ray import run_on_ray
from f2ed.experiments.parallel import run_in_processes
from f2ed.experiments.runner import place
from f2ed.learning.device import found_device
from f2ed.records import RunLog, archive_of
from f2ed.records.grading import LATE_ROUNDS
from f2ed.report import write_page
from f2ed.report.sinks import Sink, sink
from f2ed.report.watch import serve
from f2ed.simulation.leak_meter import warning

__all__ = ["Cluster", "carry_out", "run"]


def run(
    file: Annotated[Path, Parameter(help="An experiment file, or the name of a shipped one (f2ed list experiments).")],
    /,
    *,
    device: Annotated[str, Parameter(help="cpu, cuda, cuda:1 …; auto uses a GPU if there is one.")] = "auto",
    out: Annotated[Path, Parameter(help="Where to put the folder of records, named after the file.")] = Path("runs"),
    only: Annotated[
        tuple[str, ...],
        Parameter(negative="", help="Run only those whose name contains this; repeat to narrow down."),
    ] = (),
    part: Annotated[
        tuple[str, ...], Parameter(negative="", help="Run only this part of the file; may be repeated.")
    ] = (),
    jobs: Annotated[int, Parameter(help="Number of runs in parallel, each in its own process.")] = 1,
    engine: Annotated[
        Literal["processes", "ray"], Parameter(help="Where runs go: processes on this machine, or a Ray cluster.")
    ] = "processes",
    address: Annotated[
        str | None, Parameter(help="The Ray cluster, such as auto or ray-head:6379; by default one on this machine.")
    ] = None,
    runs_per_gpu: Annotated[int, Parameter(help="With Ray, how many runs share a GPU.")] = 1,
    cores_per_run: Annotated[int, Parameter(help="With Ray, how many cores a run gets.")] = 1,
    data: Annotated[Path | None, Parameter(help="Look for data sets here first.")] = None,
    rounds: Annotated[int | None, Parameter(help="Number of rounds, instead of the file's.")] = None,
    save_model: Annotated[
        bool, Parameter(negative="", help="Save each run's trained model beside its records (safetensors).")
    ] = False,
    watch: Annotated[
        bool, Parameter(negative="", help="Serve the live report meanwhile, on this machine only.")
    ] = False,
    port: Annotated[int, Parameter(help="Port for --watch; 0 is any free port.")] = 8642,
    log_to: Annotated[
        tuple[str, ...],
        Parameter(
            negative="", help="Send the numbers meanwhile to tensorboard:FOLDER, mlflow:ADDRESS or wandb:PROJECT."
        ),
    ] = (),
    strict: Annotated[
        bool, Parameter(negative="", help="Refuse a sharding schedule that exposes single clients.")
    ] = False,
    json: Annotated[bool, Parameter(negative="", help="Print the results as JSON.")] = False,
) -> None:
    """Run the experiments of a TOML file or a shipped one.

    All settings are checked before the first run starts. Finished runs are not repeated, and interrupted runs resume
    when the same command is given again. At the end there are a summary, a table and an HTML report (extra `report`);
    with --watch the report can be viewed from the start. A sharding schedule that would expose single clients to the
    server within the planned rounds causes a warning, or with --strict an error.

    Example: f2ed run demo

    Example: f2ed run experiments/demo.toml --only filter-l2 --jobs 2

    Example: f2ed run demo --watch

    Example: f2ed run demo --log-to tensorboard:events

    Example: f2ed run worst_case --engine ray --address auto --device cuda --runs-per-gpu 8
    """
    if engine != "ray" and (address, runs_per_gpu, cores_per_run) != (None, 1, 1):
        raise ConfigError("--address, --runs-per-gpu and --cores-per-run are for a cluster; add --engine ray")
    # With --json, standard output is for a program and progress goes to standard error.
    console = Console(highlight=False, stderr=json)
    experiments = read(find(file)).only_parts(part)
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
        save_model=save_model,
        sinks=[sink(where) for where in log_to],
        cluster=Cluster(address, runs_per_gpu, cores_per_run) if engine == "ray" else None,
    )
    summary = summarize(logs)
    where: Path | None = folder / "index.html"
    # Runs that are in the archive of that name have no file of their own.
    files = sorted(
        {path if (path := place(cell, folder)).exists() else archive_of(folder) or folder for cell in chosen}
    )
    try:
        write_page(files, folder / "index.html", title=experiments.title, about=chosen[0].about)
    except MissingExtra as missing:
        console.print(f"No report was written: {missing}", soft_wrap=True, markup=False)
        where = None
    if json:
        found = {"results": summary.results, "verdict": summary.verdict, "records": folder, "page": where}
        sys.stdout.write(msgspec.json.format(msgspec.json.encode(found, enc_hook=str)).decode() + "\n")
    else:
        console.print(chosen[0].about, soft_wrap=True)
        _conclude(summary, folder, where, console)


class Cluster(NamedTuple):
    """Where to run on Ray, and how many runs share what."""

    address: str | None
    runs_per_gpu: int
    cores_per_run: int


def carry_out(
    experiments: ExperimentFile,
    folder: Path,
    console: Console,
    *,
    device: str,
    only: tuple[str, ...],
    jobs: int,
    data: Path | None,
    port: int | None = None,
    strict: bool = False,
    save_model: bool = False,
    sinks: Sequence[Sink] = (),
    cluster: Cluster | None = None,
) -> tuple[list[Cell], list[RunLog]]:
    """Run the chosen part of a file with progress, and with a live report if there is a port; exit on Ctrl-C."""
    if cluster is None:
        device = str(found_device(device))
    if not (folder.is_dir() or not folder.exists()) or any(part.is_file() for part in folder.parents):
        raise ConfigError(f"--out: {folder} cannot be a folder, since a file is in the way; name another")
    if jobs < 1:
        raise ConfigError(f"--jobs {jobs}: use at least 1")
    with console.status("Looking for the data …") as status:

        def progress(name: str, done: int, total: int | None) -> None:
            status.update(f"Fetching {name}: {done / 1e6:.1f} MB" + (f" of {total / 1e6:.1f}" if total else ""))

        notify = partial(console.print, soft_wrap=True)
        chosen, loaded = prepare(experiments, only=only, folder=data, progress=progress, notify=notify)
    if not chosen:
        names = "; ".join(cell.name for cell in expand(experiments))
        raise ConfigError(
            f"--only {' and '.join(only)}: no run of {experiments.path} has that in its name; choose from: {names}"
        )
    _check_schedules(chosen, console, strict=strict)
    if cluster is not None:
        settings = cluster._asdict() | {"device": device, "save_model": save_model}
        events = run_on_ray(chosen, folder, loaded=loaded, **settings)
    elif jobs > 1 and len(chosen) > 1:
        jobs = min(jobs, len(chosen))
        events = run_in_processes(chosen, folder, jobs=jobs, device=device, folder=data, save_model=save_model)
    else:
        events = run_all(chosen, folder, loaded=loaded, device=device, notify=notify, save_model=save_model)
    try:
        with serve(folder, port) if port is not None else nullcontext() as url:
            if url is not None:
                console.print(f"Live report: {url}", soft_wrap=True)
            logs = follow(chosen, _sent(events, sinks), console)
    except KeyboardInterrupt:
        console.print(f"Interrupted. Nothing is lost: run the same command to resume ({folder}).", soft_wrap=True)
        sys.exit(130)
    return chosen, logs


def _sent(events: Iterator[Event], sinks: Sequence[Sink]) -> Iterator[Event]:
    """Pass the events on, and their numbers to other tools."""
    try:
        for event in events:
            for each in sinks:
                each.follow(event.log, finished=event.kind in {"finished", "skipped"})
            yield event
    finally:
        for each in sinks:
            each.close()


def _check_schedules(cells: Sequence[Cell], console: Console, *, strict: bool) -> None:
    """Warn of schedules that would expose single clients within the planned rounds, or refuse them."""
    found: dict[str, list[str]] = {}
    for cell in cells:
        if (text := warning(cell.experiment)) is not None:
            found.setdefault(text, []).append(cell.name)
    for text, names in found.items():
        which = "every run" if len(names) == len(cells) else f"{len(names)} of {len(cells)} runs, such as {names[0]}"
        if strict:
            raise ConfigError(f"{which}: {text}")
        console.print(f"Warning, {which}: {text}", style="yellow", soft_wrap=True, markup=False)


def _conclude(summary: Summary, folder: Path, where: Path | None, console: Console) -> None:
    table = Table(box=box.SIMPLE_HEAD)
    axes = list(dict.fromkeys(axis for result in summary.results for axis in result.arm))
    for axis in axes or ["run"]:
        table.add_column(axis, no_wrap=True)
    for column in ("accuracy", "points\nlost", "attack\nsuccess", "weight on\ncontaminated\nshards"):
        table.add_column(column, justify="right")
    for result in summary.results:
        names = [result.arm.get(axis, "") for axis in axes] or [result.name]
        lost = "" if result.lost is None else f"{round(result.lost, 1) + 0.0:.1f}"
        success = "" if result.success is None else f"{100 * result.success:.1f} %"
        weight = "" if result.contaminated_weight is None else f"{100 * result.contaminated_weight:.1f} %"
        accuracy = "" if result.accuracy is None else f"{100 * result.accuracy:.1f} %"
        table.add_row(*names, accuracy, lost, success, weight)
    console.print(table)
    legend = (
        "points lost: of accuracy, against the same run without an attack; contaminated shards: those with a "
        f"malicious client, over the last {LATE_ROUNDS} rounds\n"
    )
    console.print(legend, style="dim", soft_wrap=True)
    for sentence in summary.verdict:
        console.print(f"- {sentence}", soft_wrap=True)
    console.print(f"\nRecords: {folder}", soft_wrap=True)
    if where is not None:
        console.print(f"Report: {where}", soft_wrap=True)
