"""Run the cells of a grid on a Ray cluster: several machines, and several runs per GPU.

A worker runs a cell in a folder of its own and sends back what it wrote after every round. This process keeps the
records and checkpoints, as it does for runs of its own: resuming, the live page and everything that reads records work
alike, and no file system is shared. A run whose worker or machine is lost goes on elsewhere after its last checkpoint.
"""

import os
import socket
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from logging import WARNING
from pathlib import Path
from typing import Any, NamedTuple

from f2ed.core.errors import ConfigError, F2edError, MissingExtra
from f2ed.core.files import Lock, locked
from f2ed.core.imports import folders, with_folder
from f2ed.experiments.grid import Cell
from f2ed.experiments.runner import LOCK_SECONDS, Event, Kind, Loaded, checkpoint_of, finished_before, place, run_cell
from f2ed.learning import Data
from f2ed.records import read

__all__ = ["run_on_ray"]

_MAX_LOSSES = 5
"""After losing this many workers without a single new round, a run is given up."""


def run_on_ray(
    cells: Sequence[Cell],
    out: Path,
    *,
    loaded: Loaded,
    address: str | None = None,
    device: str = "auto",
    runs_per_gpu: int = 1,
    cores_per_run: int = 1,
    save_model: bool = False,
) -> Iterator[Event]:
    """Run the cells on a cluster, or on one that is started here; yield events as they come."""
    if runs_per_gpu < 1 or cores_per_run < 1:
        raise ConfigError(
            f"found {runs_per_gpu} runs per GPU and {cores_per_run} cores per run; use at least 1 of each"
        )
    out.mkdir(parents=True, exist_ok=True)
    with _cluster(address) as ray, ExitStack() as locks:
        resources = ray.cluster_resources()
        if device == "auto":
            device = "cuda" if resources.get("GPU") else "cpu"
        if device != "cpu" and not resources.get("GPU"):
            raise ConfigError(f"--device {device}: the cluster has no GPU; use --device cpu")
        if resources.get("CPU", 0) < cores_per_run:
            raise ConfigError(f"the cluster has {resources.get('CPU', 0):g} cores, and a run wants {cores_per_run}")
        options = {"num_cpus": cores_per_run, "num_gpus": 0 if device == "cpu" else 1 / runs_per_gpu}
        # A worker that is ahead waits, so that no more than two checkpoints of a run lie in the object store.
        ahead = {"num_returns": "streaming", "_generator_backpressure_num_objects": 2}
        remote = ray.remote(max_retries=0, **ahead, **options)(_run)
        shared = {wanted: ray.put(data) for wanted, data in loaded.items()}
        waiting: dict[Any, _RemoteRun] = {}
        for index, cell in enumerate(cells):
            if (log := finished_before(cell, out)) is not None:
                yield Event(index, "skipped", log)
                continue
            path = place(cell, out)
            lock = locks.enter_context(locked(path, wait=LOCK_SECONDS, remedy="choose another --out"))
            job = _Job(cell, device, cores_per_run, save_model, folders())
            run = _RemoteRun(index, path, lock, remote, job, shared[cell.experiment.data])
            waiting[run.start()] = run
        while waiting:
            (ready,), _ = ray.wait(list(waiting), num_returns=1, fetch_local=True)
            run = waiting.pop(ready)
            event = run.take(ray)
            if event is not None:
                yield event
            if event is None or event.kind != "finished":
                waiting[run.stream] = run


class _Files(NamedTuple):
    """What a run has on disk: its records so far, its checkpoint, and at the end its model."""

    records: bytes
    checkpoint: bytes | None
    model: bytes | None


class _Job(NamedTuple):
    cell: Cell
    device: str
    cores: int
    save_model: bool
    beside: tuple[Path, ...]


class _RemoteRun:
    """One run, and where its files are kept here."""

    def __init__(self, index: int, path: Path, lock: Lock, remote: Any, job: _Job, data: Any) -> None:
        self.index, self.path, self.lock = index, path, lock
        self._remote, self._job, self._data = remote, job, data
        self._losses = 0
        self.stream: Any = None

    def start(self) -> Any:
        """Begin, or continue after the checkpoint; return the stream of what happens."""
        self.stream = self._remote.remote(self._job, _files(self.path), self._data)
        return self.stream

    def take(self, ray: Any) -> Event | None:
        """Return what happened next; None if the worker was lost, and the run started again."""
        try:
            found = ray.get(next(self.stream))
        except (ray.exceptions.WorkerCrashedError, ray.exceptions.NodeDiedError, ray.exceptions.ObjectLostError):
            self._start_again()
            return None
        except ray.exceptions.RayTaskError as error:
            raise ConfigError(f"{self._job.cell.name}: {str(error.cause).splitlines()[0]}") from None
        if isinstance(found, str):
            raise ConfigError(f"{self._job.cell.name}: {found}")
        kind, files = found
        self._losses = 0
        self._keep(files)
        return Event(self.index, kind, read(self.path))

    def _start_again(self) -> None:
        self._losses += 1
        if self._losses > _MAX_LOSSES:
            raise ConfigError(
                f"{self._job.cell.name}: {self._losses} workers in a row were lost before a round was finished; see "
                "Ray's logs (often there is too little memory)"
            )
        self.start()

    def _keep(self, files: _Files) -> None:
        """Write the records first, then the checkpoint, as a run on this machine does."""
        self.lock.check()
        self.lock.write(self.path, files.records, mode=0o666)
        if files.checkpoint is None:
            checkpoint_of(self.path).unlink(missing_ok=True)
        else:
            self.lock.write(checkpoint_of(self.path), files.checkpoint, mode=0o666)
        if files.model is not None:
            self.lock.write(self.path.with_suffix(".safetensors"), files.model, mode=0o666)


def _run(job: _Job, before: _Files | None, data: Data) -> Iterator[tuple[Kind, _Files] | str]:
    """Run a cell on a worker, from its files so far; yield its files after every event."""
    for folder in job.beside:
        if folder.is_dir():
            with_folder(folder)
    with tempfile.TemporaryDirectory(prefix="f2ed-") as scratch:
        out = Path(scratch)
        path = place(job.cell, out)
        if before is not None:
            path.write_bytes(before.records)
            if before.checkpoint is not None:
                checkpoint_of(path).write_bytes(before.checkpoint)
        try:
            for kind, _ in run_cell(
                job.cell, out, data=data, device=job.device, workers=job.cores, save_model=job.save_model
            ):
                files = _files(path)
                assert files is not None  # noqa: S101  it began
                yield kind, files
        except F2edError as error:
            yield str(error)


def _files(path: Path) -> _Files | None:
    if not path.exists():
        return None
    checkpoint, model = checkpoint_of(path), path.with_suffix(".safetensors")
    return _Files(
        path.read_bytes(),
        checkpoint.read_bytes() if checkpoint.exists() else None,
        model.read_bytes() if model.exists() else None,
    )


@contextmanager
def _cluster(address: str | None) -> Iterator[Any]:
    """Connect to a cluster, or start one on this machine; leave it at the end."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        import ray  # noqa: PLC0415  an optional dependency
    except ModuleNotFoundError:
        raise MissingExtra("--engine ray", "ray") from None
    connected = ray.is_initialized()
    if not connected:
        _check_answers(address)
    try:
        if not connected:
            ray.init(address, log_to_driver=False, logging_level=WARNING, include_dashboard=False)
        yield ray
    except (ConnectionError, ValueError) as error:
        raise ConfigError(f"no Ray cluster at {address!r} ({str(error).splitlines()[0]}); see ray status") from None
    finally:
        if not connected:
            ray.shutdown()


def _check_answers(address: str | None) -> None:
    """Refuse an address where nobody listens; Ray itself would try for minutes."""
    host, _, port = (address or "").rpartition("://")[2].rpartition(":")
    if not host:
        return
    if not port.isdigit():
        raise ConfigError(f"--address {address}: write HOST:PORT, ray://HOST:PORT or auto")
    try:
        socket.create_connection((host, int(port)), timeout=5).close()
    except (OSError, OverflowError) as error:
        raise ConfigError(f"no Ray cluster at {address!r} ({error}); see ray status") from None
