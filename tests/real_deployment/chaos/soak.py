"""A soak of real processes: python -m tests.real_deployment.chaos.soak --nodes 30 --rounds 12 --seed 1.

Starts a SuperLink and the nodes, trains, brings about the faults that the seed draws, and checks what must hold
afterwards. The folder keeps all logs, the records and the plan.
"""

import argparse
import tempfile
import threading
import time
from pathlib import Path

import msgspec

from tests.real_deployment.chaos import checks
from tests.real_deployment.chaos.faults import SILENT, drawn
from tests.real_deployment.chaos.inject import Injector
from tests.real_deployment.chaos.stage import Stage, clocks_can_be_off, disks_can_be_full

_TRAINING = 15.0
"""Seconds: long enough that the faults of a round come while it is under way."""


def soak(folder, *, nodes, shards, rounds, seed, patience=7200.0, log=print):
    """Run a federation under the faults of a seed, check it, and return what came about."""
    plan = [fault for fault in drawn(seed, nodes=nodes, rounds=rounds) if _possible(fault)]
    (folder / "plan.json").write_bytes(msgspec.json.format(msgspec.json.encode(plan)))
    disks = {fault.client for fault in plan if fault.kind == "disk-full"}
    stage = Stage(folder, nodes=nodes, shards=shards, min_crowd=4, small_disks=disks, log=log)
    began = time.monotonic()
    try:
        with stage:
            log(f"{nodes + 1} nodes started after {time.monotonic() - began:.0f} s")
            stage.supervise()
            injector = Injector(stage, plan, log=log)
            ended, errors = threading.Event(), []

            def lead():
                try:
                    stage.run_until_done(stage.settings(rounds, **_deadlines(nodes)), patience=patience)
                except Exception as error:  # noqa: BLE001  raised again below
                    errors.append(error)
                finally:
                    ended.set()

            threading.Thread(target=lead, daemon=True).start()
            threading.Thread(target=_progress, args=(stage, ended, log), daemon=True).start()
            injector.follow(ended.is_set)
            injector.end_all()
            if errors:
                raise errors[0]
        log(f"{rounds} rounds in {time.monotonic() - began:.0f} s, after {stage.submitted} submissions")
        records = checks.rounds_are_all_there(stage, rounds)
        checks.nothing_below_the_crowd_opened(stage, records)
        checks.models_are_sums_of_survivors(stage, records)
        log(f"{checks.logs_agree(stage)} logs are whole and agree")
        assert not injector.left, f"these faults never came about: {injector.left}"
        _check_words(checks.named(stage, injector.done), log)
        return injector
    finally:
        keep = folder / "kept"
        keep.mkdir()
        for path in (folder / "server").iterdir():
            if path.name != "ballast":
                (keep / path.name).write_bytes(path.read_bytes())
        stage.unmount()


def _deadlines(nodes):
    """On a machine with few cores a step takes as long as there are nodes."""
    return {
        "deadline": _TRAINING + 40.0 + 3 * nodes,
        "min-deadline": _TRAINING + 15.0 + 1.5 * nodes,
        "wait-for-nodes": 20.0 + nodes,
        "max-wait": 60.0 + nodes,
        "max-skipped": 20,
        "train-seconds": _TRAINING,
    }


def _check_words(named, log):
    """Print what the logs say of each fault; every kind of fault must be named."""
    for fault, words in named:
        log(f"round {fault.round}: {fault.kind}: {words or '(nobody noticed)'}")
    silent = {fault.kind for fault, _ in named} - {fault.kind for fault, words in named if words} - SILENT
    assert not silent, f"no log names {silent}"


def _possible(fault):
    if "full" in fault.kind:
        return disks_can_be_full()
    return "clock" not in fault.kind or clocks_can_be_off()


def _progress(stage, ended, log):
    seen = 0
    while not ended.wait(2.0):
        _, finished = stage.round()
        if finished > seen:
            seen = finished
            log(f"{time.strftime('%H:%M:%S')} {finished} rounds are finished")


def main():
    words = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    words.add_argument("--nodes", type=int, default=30)
    words.add_argument("--shards", type=int, default=6)
    words.add_argument("--rounds", type=int, default=12)
    words.add_argument("--seed", type=int, default=1)
    words.add_argument("--folder", type=Path)
    given = words.parse_args()
    folder = given.folder or Path(tempfile.mkdtemp(prefix="f2ed-soak-"))
    folder.mkdir(parents=True, exist_ok=True)
    injector = soak(folder, nodes=given.nodes, shards=given.shards, rounds=given.rounds, seed=given.seed)
    print(f"all {len(injector.done)} faults came about; the logs are in {folder}")  # noqa: T201


if __name__ == "__main__":
    main()
