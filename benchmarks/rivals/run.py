"""Run rivals' rules and ours over the same simulation: python benchmarks/rivals/run.py --rivals FOLDER.

Every run writes the records of `f2ed run`; finished runs are skipped, so an interrupted command can be given again.
"""

import argparse
import os
import signal
import sys
import time
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

from checkouts import FOLDER
from this_round import ThisRound, serving

from f2ed.core.errors import F2edError
from f2ed.core.imports import with_folder
from f2ed.experiments import prepare, read
from f2ed.experiments.grid import Cell
from f2ed.experiments.runner import finished_before, place
from f2ed.learning import Data
from f2ed.learning.vector import layout
from f2ed.records import line
from f2ed.simulation import Simulation
from f2ed.simulation.first_round_cache import FirstRoundCache

HERE = Path(__file__).parent


class Where(NamedTuple):
    out: Path
    device: str
    data: Path | None
    stop: float


def main() -> None:
    args = _arguments()
    os.environ[FOLDER] = str(args.rivals)
    with_folder(HERE)
    file = read(args.file)
    file = file.only_parts(args.part) if args.part else file
    changed = {"seed": args.seed, "rounds": args.rounds}
    file = file.changed(**{name: value for name, value in changed.items() if value is not None})
    cells, loaded = prepare(file, only=args.only, folder=args.data)
    cells = [cell for cell in cells if finished_before(cell, args.out) is None]
    print(f"{len(cells)} runs to do", flush=True)
    where = Where(args.out, args.device, args.data, time.monotonic() + 60 * args.minutes)
    if args.jobs == 1:
        _serve(cells, where, loaded)
        return
    context = get_context("spawn")
    queue = context.Queue()
    queue.cancel_join_thread()
    for cell in [*cells, *[None] * args.jobs]:
        queue.put(cell)
    workers = [context.Process(target=_work, args=(queue, where), daemon=True) for _ in range(args.jobs)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", nargs="?", type=Path, default=HERE / "side_by_side.toml")
    parser.add_argument("--rivals", type=Path, default=os.environ.get(FOLDER), help="the folder with the checkouts")
    parser.add_argument("--out", type=Path, default=Path("runs/rivals"))
    parser.add_argument("--part", action="append", default=[])
    parser.add_argument("--only", action="append", default=[], help="part of a run's name")
    parser.add_argument("--seed", type=int, action="append")
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--data", type=Path, help="the folder of the data sets")
    parser.add_argument("--minutes", type=float, default=1e6, help="start no further run after this time")
    args = parser.parse_args()
    if args.rivals is None:
        parser.error("say with --rivals where the checkouts are")
    args.rivals = Path(args.rivals).resolve()
    return args


def _work(queue: Any, where: Where) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with_folder(HERE)
    loaded: dict[Any, Data] = {}

    def tasks():
        while (cell := queue.get()) is not None:
            if cell.experiment.data not in loaded:
                loaded[cell.experiment.data] = cell.experiment.data.load(where.data)
            yield cell

    _serve(tasks(), where, loaded)


def _serve(cells: Any, where: Where, loaded: Any) -> None:
    cache = FirstRoundCache()
    for cell in cells:
        if time.monotonic() > where.stop:
            return
        began = time.process_time()
        try:
            last = run(cell, where, loaded[cell.experiment.data], cache)
        except (F2edError, RuntimeError, ValueError, IndexError) as error:
            # What a rival's code cannot do is a finding: the run is left out of the records, and the others go on.
            print(f"FAILED {cell.name}: {type(error).__name__}: {error}", flush=True)
            continue
        success = "" if last.success is None else f" backdoor {last.success:.3f}"
        spent = time.process_time() - began
        print(f"{cell.name}: {last.accuracy:.4f}{success} ({spent:.1f} s of CPU time)", flush=True)


def run(cell: Cell, where: Where, data: Data, cache: FirstRoundCache) -> Any:
    """Run one cell, show its rule the model of every round, and write the records when it is done."""
    simulation = Simulation(
        cell.experiment, name=cell.name, arm=cell.arm, data=data, device=where.device, workers=1, first_rounds=cache
    )
    state, records, memory = simulation.start(), [], {}
    shape = layout(simulation.model(state))
    while not simulation.ended(state):
        this = ThisRound(state.model.cpu(), shape.names, tuple(map(tuple, shape.shapes)), state.round, memory)
        with serving(this):
            state, record = simulation.step(state)
        memory = this.remembered
        records.append(record)
    path = place(cell, where.out)
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    partial.write_bytes(line(simulation.header) + b"".join(map(line, records)))
    partial.replace(path)
    return records[-1]


if __name__ == "__main__":
    try:
        main()
    except F2edError as error:
        sys.exit(f"error: {error}")
