"""Run the cells of a grid: finished runs are skipped, interrupted runs resume.

After every round the record is appended and then the checkpoint is replaced atomically. So whenever a run is killed,
all records up to the checkpoint are valid, and any later ones are dropped.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Literal, NamedTuple

from f2ed.core.errors import ConfigError
from f2ed.core.files import append, locked
from f2ed.experiments.file import ExperimentFile
from f2ed.experiments.grid import Cell, expand, located
from f2ed.learning import AnyDataset, Data
from f2ed.learning.datasets import ARCHIVES
from f2ed.learning.datasets.archive import find
from f2ed.learning.datasets.base import Notify, Progress, quiet
from f2ed.learning.saved import save_model as write_model
from f2ed.records import RunHeader, RunLog, archive_of, holds_records, line, read, read_all
from f2ed.simulation import Simulation
from f2ed.simulation.checkpoint import SimulationState, pack, unpack
from f2ed.simulation.first_round_cache import FirstRoundCache
from f2ed.simulation.header import digest
from f2ed.simulation.validate import check_data

__all__ = [
    "LOCK_SECONDS",
    "Event",
    "Kind",
    "Loaded",
    "checkpoint_of",
    "finished_before",
    "place",
    "prepare",
    "run_all",
    "run_cell",
]

Loaded = Mapping[AnyDataset, Data]
Kind = Literal["began", "round", "finished", "skipped"]

LOCK_SECONDS = 3.0
"""The processes of a run that was killed need a moment to notice."""


class Event(NamedTuple):
    """Progress of a cell: it began, completed a round, finished, or was skipped as finished before."""

    cell: int
    kind: Kind
    log: RunLog
    """The header and the rounds so far."""


def prepare(
    file: ExperimentFile,
    *,
    only: Sequence[str] = (),
    folder: Path | None = None,
    progress: Progress = quiet,
    notify: Notify = quiet,
) -> tuple[list[Cell], Loaded]:
    """Expand the grid, load its data and refuse invalid settings before anything starts.

    Only cells whose names contain every string of `only` are kept, and only their data are loaded. If the data can be
    neither found nor downloaded, the file's fallback is used, if it has one.
    """
    cells = [cell for cell in expand(file) if all(word in cell.name for word in only)]
    loaded: dict[AnyDataset, Data] = {}
    if file.fallback:
        expand(file.without_data())  # An invalid fallback is an error even where it is not needed.
    for cell in cells:
        wanted = cell.experiment.data
        if wanted in loaded:
            continue
        try:
            loaded[wanted] = wanted.load(folder, progress=progress, notify=notify)
        except ConfigError as error:
            if not file.fallback or _is_there(wanted, folder):
                raise ConfigError(f"{file.path}: {located(f'data: {error}', cell.where)}") from None
            notify(f"{error}. Using the fallback of the file instead.")
            return prepare(file.without_data(), only=only, folder=folder, progress=progress, notify=notify)
    _check_all(file, cells, loaded)
    return cells, loaded


def _is_there(wanted: AnyDataset, folder: Path | None) -> bool:
    """Whether the files exist, so that the error is not their absence."""
    kind = str(wanted.__struct_config__.tag)
    return any(archive.name == kind and find(archive, folder) is not None for archive in ARCHIVES)


def _check_all(file: ExperimentFile, cells: Sequence[Cell], loaded: Loaded) -> None:
    seen = set()
    for cell in cells:
        it = cell.experiment
        alike = it.data, it.partition, it.model, it.loss, it.metric, it.attack, it.clients, it.seed
        if alike in seen:
            continue
        seen.add(alike)
        try:
            check_data(it, loaded[it.data])
        except ConfigError as error:
            raise ConfigError(f"{file.path}: {located(str(error), cell.where)}") from None


def place(cell: Cell, out: Path) -> Path:
    """Return the path of a cell's records; records of the same settings under another name count too."""
    path = out / f"{cell.slug}.jsonl"
    if path.exists():
        return path
    same = out.glob(f"*-{cell.slug.rpartition('-')[2]}.jsonl*")
    return min((each for each in same if holds_records(each)), default=path)


def finished_before(cell: Cell, out: Path) -> RunLog | None:
    """Return the log of a run that is complete already; None for one to run or to resume."""
    if (archived := _archived(out.absolute()).get(digest(cell.experiment))) is not None and archived.finished:
        return archived
    path = place(cell, out)
    if path.exists() and (log := read(path)).finished:
        checkpoint_of(path).unlink(missing_ok=True)
        return log
    if path.suffix == ".gz":
        raise ConfigError(f"{path} is compressed but not finished; decompress it to resume, or delete it to start over")
    return None


def run_cell(
    cell: Cell,
    out: Path | str,
    *,
    data: Data,
    device: str = "cpu",
    workers: int | None = None,
    first_rounds: FirstRoundCache | None = None,
    notify: Notify = quiet,
    save_model: bool = False,
) -> Iterator[tuple[Kind, RunLog]]:
    """Run or resume one cell; yield each event with the log so far. The trained model is saved beside the records."""
    out = Path(out)
    if (before := finished_before(cell, out)) is not None:
        yield "skipped", before
        return
    path = place(cell, out)
    path.parent.mkdir(parents=True, exist_ok=True)
    with locked(path, wait=LOCK_SECONDS, remedy="choose another --out") as lock:
        simulation = Simulation(
            cell.experiment,
            name=cell.name,
            arm=cell.arm,
            data=data,
            device=device,
            workers=workers,
            first_rounds=first_rounds,
            notify=notify,
        )
        log, state = _resumed(path, simulation) or (RunLog(simulation.header, ()), None)
        lock.write(path, line(log.header) + b"".join(map(line, log.rounds)), mode=0o666)
        yield "began", log
        after = state
        for after, record in simulation.rounds(state):
            lock.check()
            append(path, line(record))
            lock.write(checkpoint_of(path), pack(after, simulation.digest), mode=0o666)
            log = log._replace(rounds=(*log.rounds, record))
            yield "round", log
        if save_model and after is not None:
            write_model(path.with_suffix(".safetensors"), simulation.model(after), digest=simulation.digest)
        checkpoint_of(path).unlink(missing_ok=True)
        yield "finished", log


@cache
def _archived(out: Path) -> dict[str, RunLog]:
    """Return the runs of the archive that has the folder's name, by digest."""
    archive = archive_of(out)
    return {} if archive is None else {log.header.digest: log for log in read_all(archive)}


def run_all(
    cells: Sequence[Cell],
    out: Path | str,
    *,
    loaded: Loaded,
    device: str = "cpu",
    workers: int | None = None,
    notify: Notify = quiet,
    save_model: bool = False,
) -> Iterator[Event]:
    """Run the cells in order; cells that start alike share the training of their first round."""
    first_rounds = FirstRoundCache()
    for index, cell in enumerate(cells):
        data = loaded[cell.experiment.data]
        for kind, log in run_cell(
            cell,
            out,
            data=data,
            device=device,
            workers=workers,
            first_rounds=first_rounds,
            notify=notify,
            save_model=save_model,
        ):
            yield Event(index, kind, log)


def checkpoint_of(path: Path) -> Path:
    """Return where the state of an unfinished run is kept."""
    return path.with_suffix(".checkpoint")


def _resumed(path: Path, simulation: Simulation) -> tuple[RunLog, SimulationState] | None:
    """Return the rounds up to the checkpoint, and its state; None to start over."""
    if not (path.exists() and checkpoint_of(path).exists()):
        return None
    log = read(path)
    _check_device(path, log.header, simulation.header)
    _check_sources(path, log.header, simulation.header)
    try:
        state = unpack(checkpoint_of(path).read_bytes(), simulation.digest, simulation.device)
    except ConfigError as error:
        raise ConfigError(f"{checkpoint_of(path)}: {error}") from None
    kept = tuple(record for record in log.rounds if record.round < state.round)
    if len(kept) != state.round:
        raise ConfigError(f"{path} lacks rounds that its checkpoint includes; delete both to start over")
    return RunLog(log.header, kept), state


def _check_device(path: Path, before: RunHeader, now: RunHeader) -> None:
    if before.device != now.device:
        raise ConfigError(
            f"{path} was started on {before.device}, and this is {now.device}, whose rounding differs; "
            "resume there, or delete the file to start over"
        )


def _check_sources(path: Path, before: RunHeader, now: RunHeader) -> None:
    """Refuse to go on with other code or data than the rounds so far were made with."""
    was, has = before.sources or {}, now.sources or {}
    changed = sorted(name for name in has if was.get(name, has[name]) != has[name])
    if before.data_sha256 and before.data_sha256 != now.data_sha256:
        changed.append("the data")
    if changed:
        raise ConfigError(
            f"{changed[0]} changed since {path} was started, so its rounds would not belong together; change it back, "
            "or delete the file to start over"
        )
