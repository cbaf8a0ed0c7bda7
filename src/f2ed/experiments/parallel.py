"""Run several cells in parallel, each in its own process."""

import os
import queue
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path
from threading import Thread, current_thread, main_thread
from typing import Any, NamedTuple

import torch

from f2ed.core.errors import ConfigError, F2edError
from f2ed.core.imports import folders, with_folder
from f2ed.core.threads import cores
from f2ed.experiments.grid import Cell
from f2ed.experiments.runner import Event, run_cell
from f2ed.learning import AnyDataset, Data
from f2ed.simulation.first_round_cache import FirstRoundCache

__all__ = ["ignoring_interrupts", "leave_with", "run_in_processes"]


def run_in_processes(
    cells: Sequence[Cell],
    out: Path,
    *,
    jobs: int,
    device: str = "cpu",
    folder: Path | None = None,
    save_model: bool = False,
) -> Iterator[Event]:
    """Run the cells in `jobs` processes, which share the cores; stop them when the caller stops iterating."""
    # Start fresh interpreters: torch threads do not survive a fork.
    context = get_context("spawn")
    tasks, events = context.Queue(), context.Queue()
    tasks.cancel_join_thread()  # Do not wait for tasks that no process took.
    for numbered in enumerate(cells):
        tasks.put(numbered)
    for _ in range(jobs):
        tasks.put(None)
    work = _Work(out, device, folder, max(1, cores() // jobs), os.getpid(), folders(), save_model)
    processes = [context.Process(target=_serve, args=(tasks, events, work), daemon=True) for _ in range(jobs)]
    with ignoring_interrupts():
        for process in processes:
            process.start()
    try:
        left = len(cells)
        while left:
            try:
                event = events.get(timeout=1)
            except queue.Empty:
                if not any(process.is_alive() for process in processes):
                    raise ConfigError(
                        "the worker processes ended before their runs; run again with --jobs 1 to see why"
                    ) from None
                continue
            if isinstance(event, str):
                raise ConfigError(event)
            left -= event.kind in {"finished", "skipped"}
            yield event
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            process.join()


class _Work(NamedTuple):
    """What a worker process is told."""

    out: Path
    device: str
    folder: Path | None
    workers: int
    parent: int
    beside: tuple[Path, ...]
    save_model: bool


def _serve(tasks: Any, events: Any, work: _Work) -> None:
    """Run cells from the queue until it is empty."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the parent, which stops this process.
    Thread(target=leave_with, args=(work.parent,), daemon=True).start()
    torch.set_num_threads(work.workers)
    for place in work.beside:
        with_folder(place)
    loaded: dict[AnyDataset, Data] = {}
    first_rounds = FirstRoundCache()
    while (task := tasks.get()) is not None:
        index, cell = task
        try:
            wanted = cell.experiment.data
            data = loaded.get(wanted)
            if data is None:
                data = loaded[wanted] = wanted.load(work.folder)
            for kind, log in run_cell(
                cell,
                work.out,
                data=data,
                device=work.device,
                workers=work.workers,
                first_rounds=first_rounds,
                save_model=work.save_model,
            ):
                events.put(Event(index, kind, log))
        except F2edError as error:
            events.put(f"{cell.name}: {error}")
            return


@contextmanager
def ignoring_interrupts() -> Iterator[None]:
    """Start processes that ignore Ctrl-C from their first moment, before they can say so themselves."""
    if current_thread() is not main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def leave_with(parent: int) -> None:
    """End this process soon after its parent, even if that was killed."""
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)
