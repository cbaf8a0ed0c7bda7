"""What runs cost is said by device, and shared devices are shared out."""

import msgspec
import pytest

from f2ed.experiments.reproduction.costs import costs
from f2ed.records import RoundRecord, RunHeader, RunLog, Seconds


def run(started, seconds, device="a GPU"):
    """Return a run of two rounds, made up."""
    header = {
        "name": "whatever", "digest": "", "settings": {}, "seed": 0, "rounds": 2, "versions": {}, "device": device,
        "dimension": 1, "clients": 1, "shards": (), "mode": "clear",
        "crowd": 1, "guarantee": {}, "started": started, "estimator": {"kind": "mean", "title": "Mean"},
    }  # fmt: skip
    record = RoundRecord(round=0, accuracy=0.5, loss=None, success=None, seconds=Seconds(train=seconds / 2))
    return RunLog(msgspec.convert(header, RunHeader), (record, record))


def at(minute, second=0):
    return f"2026-01-01T00:{minute:02}:{second:02}+00:00"


def test_runs_one_after_the_other_have_the_device_to_themselves():
    assert costs([run(at(0), 60), run(at(1), 30)]) == "45 seconds per run on a GPU (2 runs)"
    assert costs([]) == "nothing was run"


def test_runs_at_once_share_the_device():
    # The first has 30 seconds alone and 15 of the 30 that both have; the second 15 and then 60 alone.
    runs = [run(at(0), 60), run(at(0, 30), 90)]
    assert costs(runs) == "75 seconds per run on a GPU, 60 of device time (2 runs)"
    assert costs(runs[:1], runs) == "60 seconds per run on a GPU, 45 of device time (1 run)"
    assert costs(runs[1:], runs) == "90 seconds per run on a GPU, 75 of device time (1 run)"


def test_devices_are_apart():
    runs = [run(at(0), 60), run(at(0), 20, "cpu")]
    assert costs(runs) == "60 seconds per run on a GPU (1 run); 20 seconds per run on cpu (1 run)"


@pytest.mark.parametrize("beside", [[], [run(at(0), 60)]])
def test_a_record_that_does_not_say_when_it_began_counts_whole(beside):
    assert costs([run("", 40), run("", 20)], beside) == "30 seconds per run on a GPU (2 runs)"
