"""Run attacks round by round, here or in several processes; after each round the search decides whether to go on."""

import gc
import os
import signal
from collections.abc import Iterator, Mapping
from multiprocessing import connection, get_context
from pathlib import Path
from threading import Thread
from typing import Any, NamedTuple, Protocol

import msgspec
import torch

from f2ed.core.errors import ConfigError, F2edError
from f2ed.core.imports import folders, with_folder
from f2ed.core.threads import cores
from f2ed.experiments.parallel import ignoring_interrupts, leave_with
from f2ed.experiments.search.clean import CleanModels
from f2ed.learning import AnyDataset, Data
from f2ed.records import RoundRecord, RunHeader
from f2ed.simulation import Experiment, Simulation
from f2ed.simulation.first_round_cache import FirstRoundCache

__all__ = ["Here", "Processes", "Work", "Workers", "answer"]

Report = RunHeader | RoundRecord | None
"""The header of a run, then the record of each round, then None."""


class Workers(Protocol):
    """A number of slots, each of which runs one experiment at a time."""

    slots: int

    def start(self, slot: int, experiment: Experiment, name: str, clean: CleanModels | None = None) -> None:
        """Begin a run in a free slot; without an attack it writes the clean models, else it measures against them."""

    def wait(self) -> tuple[int, Report]:
        """Return the next report of any run, which then pauses."""

    def go_on(self, slot: int) -> None:
        """Let a run continue after a report."""

    def stop(self, slot: int) -> None:
        """End a run after a report."""

    def close(self) -> None:
        """Stop everything."""


class Here:
    """One slot in this process, with all of its cores."""

    slots = 1

    def __init__(self, loaded: Mapping[AnyDataset, Data], *, device: str) -> None:
        self._loaded = {wanted: data.to(device) for wanted, data in loaded.items()}
        self._device = device
        self._first_rounds = FirstRoundCache()
        self._reports: Iterator[Report] = iter(())

    def start(
        self,
        slot: int,  # noqa: ARG002  there is one slot
        experiment: Experiment,
        name: str,
        clean: CleanModels | None = None,
    ) -> None:
        """Begin a run."""
        data = self._loaded[experiment.data]
        self._reports = _run(experiment, name, clean, data=data, device=self._device, first_rounds=self._first_rounds)

    def wait(self) -> tuple[int, Report]:
        """Run the next round."""
        return 0, next(self._reports)

    def go_on(self, slot: int) -> None:
        """Do nothing: the next round is run when it is waited for."""

    def stop(self, slot: int) -> None:  # noqa: ARG002  there is one slot
        """Forget the run."""
        self._reports = iter(())

    def close(self) -> None:
        """Forget the run."""
        self._reports = iter(())


class Work(NamedTuple):
    """What a worker process is told."""

    device: str
    folder: Path | None
    threads: int
    parent: int
    beside: tuple[Path, ...]


class Processes:
    """Several slots, each a process of its own; on a GPU they share it."""

    def __init__(self, slots: int, *, device: str, folder: Path | None) -> None:
        self.slots = slots
        context = get_context("spawn")  # torch threads do not survive a fork
        work = Work(device, folder, max(1, cores() // slots), os.getpid(), folders())
        self._pipes: list[Any] = []
        self._processes = []
        with ignoring_interrupts():
            for _ in range(slots):
                ours, theirs = context.Pipe()
                process = context.Process(target=_serve, args=(theirs, work), daemon=True)
                process.start()
                theirs.close()
                self._pipes.append(ours)
                self._processes.append(process)

    def start(self, slot: int, experiment: Experiment, name: str, clean: CleanModels | None = None) -> None:
        """Send an experiment to a process."""
        self._pipes[slot].send((experiment, name, clean))

    def wait(self) -> tuple[int, Report]:
        """Wait for any process."""
        slot = self._pipes.index(connection.wait(self._pipes)[0])
        try:
            report: Report | str = self._pipes[slot].recv()
        except (EOFError, ConnectionError):
            raise ConfigError(
                "a worker process ended before its run; search again with fewer --jobs, or --jobs 1 to see why"
            ) from None
        if isinstance(report, str):
            raise ConfigError(report)
        return slot, report

    def go_on(self, slot: int) -> None:
        """Answer that the run may continue."""
        self._pipes[slot].send(True)

    def stop(self, slot: int) -> None:
        """Answer that the run ends here."""
        self._pipes[slot].send(False)

    def close(self) -> None:
        """End the processes."""
        for process in self._processes:
            process.terminate()
        for process in self._processes:
            process.join()


def _run(
    experiment: Experiment,
    name: str,
    clean: CleanModels | None,
    *,
    data: Data,
    device: str,
    first_rounds: FirstRoundCache,
    workers: int | None = None,
) -> Iterator[Report]:
    simulation = Simulation(experiment, name=name, data=data, device=device, workers=workers, first_rounds=first_rounds)
    try:
        yield simulation.header
        yield from _rounds(simulation, clean)
        yield None
    finally:
        if simulation.device.type == "cuda":  # Recorded steps hold memory that the next run needs.
            del simulation
            gc.collect()
            torch.cuda.empty_cache()


def _rounds(simulation: Simulation, clean: CleanModels | None) -> Iterator[RoundRecord]:
    """Yield the rounds: with what a trigger reaches against clean models, or without an attack keep the models."""
    if clean is None or simulation.experiment.attack is not None:
        for _, record in simulation.rounds():
            yield record if clean is None else _compared(simulation, record, clean)
        return
    models = [simulation.evaluated(simulation.start())]
    for state, record in simulation.rounds():
        models.append(simulation.evaluated(state))
        if simulation.ended(state):  # Before the last record is seen, so that no search ends without them.
            clean.write(models)
        yield record


def _compared(simulation: Simulation, record: RoundRecord, clean: CleanModels) -> RoundRecord:
    before, after = clean.around(record.round)
    success = simulation.success_against(before, after, record.round)
    return record if success is None else msgspec.structs.replace(record, success_unpoisoned=success)


def _serve(pipe: Any, work: Work) -> None:
    """Be a worker process until the pipe is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the parent, which stops this process.
    Thread(target=leave_with, args=(work.parent,), daemon=True).start()
    torch.set_num_threads(work.threads)
    for place in work.beside:
        with_folder(place)
    answer(pipe, work)


def answer(pipe: Any, work: Work) -> None:
    """Run each experiment that is received, and wait for an answer after each of its rounds."""
    loaded: dict[AnyDataset, Data] = {}
    first_rounds = FirstRoundCache()
    while True:
        try:
            experiment, name, clean = pipe.recv()
        except EOFError:
            return
        try:
            if experiment.data not in loaded:
                loaded[experiment.data] = experiment.data.load(work.folder).to(work.device)
            reports = _run(
                experiment,
                name,
                clean,
                data=loaded[experiment.data],
                device=work.device,
                first_rounds=first_rounds,
                workers=work.threads,
            )
            for report in reports:
                pipe.send(report)
                if report is not None and not pipe.recv():
                    break
        except F2edError as error:
            pipe.send(f"{name}: {error}")
            return
