"""A run has the same bits whatever the number of threads of torch, of BLAS and of our own."""

import msgspec
import pytest
import threadpoolctl
import torch

from f2ed.simulation import Simulation, experiment


def without_timings(threads, **changes):
    """The last model and all that the records say, timings aside."""
    settings = {
        "data": {"kind": "synthetic", "train": 240, "test": 60, "side": 28},
        "clients": 12,
        "malicious": 2,
        "shards": 4,
        "rounds": 2,
    }
    torch.set_num_threads(threads)
    with threadpoolctl.threadpool_limits(threads, user_api="blas"):
        states, records = zip(*Simulation(experiment(settings | changes), workers=threads).rounds(), strict=True)
    timeless = [msgspec.structs.replace(record, seconds=type(record.seconds)()) for record in records]
    return states[-1].model.numpy().tobytes(), timeless


@pytest.mark.parametrize(
    "changes",
    [
        {"attack": "trimmed-mean-attack"},
        {"attack": "krum-attack", "estimator": "krum"},
        {"shards": "none", "attack": "min-max", "estimator": {"kind": "nnm", "inner": "trimmed-mean"}},
        {"model": {"kind": "cnn", "filters": 4, "hidden": 16}, "estimator": "geometric-median"},
    ],
    ids=str,
)
def test_the_number_of_threads_changes_nothing_in_a_run(changes):
    assert without_timings(1, **changes) == without_timings(2, **changes)
