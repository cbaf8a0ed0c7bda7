"""The page on what the server learns says what the audit behind it found."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

from f2ed.records import read_folder

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "what_the_server_learns.md").read_text(encoding="utf-8")
FINDINGS = json.loads((DOCS / "figures" / "audit_mnist.json").read_text(encoding="utf-8"))["findings"]


def found(metric, setting, **where):
    (only,) = [
        one
        for one in FINDINGS
        if (one["metric"], one["setting"]) == (metric, setting) and all(one[key] == where[key] for key in where)
    ]
    return only["found"]["value"]


def cells(start):
    (line,) = [line for line in PAGE.splitlines() if line.startswith(f"| {start}")]
    return [re.sub(r"[*%]| \(.*\)", "", cell).strip() for cell in line.split("|")[2:-1]]


@pytest.mark.parametrize("kind", ["untrained", "trained"])
def test_the_shares_of_images_recovered(kind):
    shown = cells(f"recovered, {kind} model")
    measured = [found("share recovered", f"{kind} dense model", shard=size) for size in (1, 2, 4, 8, 16)]
    assert [float(cell) for cell in shown] == pytest.approx([100 * share for share in measured], abs=0.51)


@pytest.mark.parametrize(
    ("start", "setting"),
    [
        ("`every-round` |", "every-round"),
        ("`every-k-rounds`, k = 50 |", "every-k-rounds, k = 50"),
        ("batches of 2 |", "batches of 2"),
        ("`fixed` |", "fixed"),
        ("`fixed`, 5 % drop out, `all-or-nothing` |", "fixed, 5 % drop out, all-or-nothing"),
        ("`fixed`, 5 % drop out, `dropout-tolerant` |", "fixed, 5 % drop out, dropout-tolerant"),
    ],
)
def test_the_cosines_and_labels_over_the_rounds(start, setting):
    *cosines, labels = cells(start)
    measured = [found("cosine", setting, rounds=rounds) for rounds in (1, 10, 100)]
    assert [float(cell) for cell in cosines] == pytest.approx(measured, abs=0.0051)
    assert float(labels) == pytest.approx(100 * found("share of labels found", setting, rounds=100), abs=0.51)


@pytest.mark.parametrize("size", [1, 2, 4, 8, 16])
def test_the_images_found_by_optimization(size):
    shown = dict(zip((1, 2, 4, 8, 16), cells("PSNR, dB (guess"), strict=True))
    assert float(shown[size]) == pytest.approx(found("PSNR, dB", "untrained convolutional model", shard=size), abs=0.51)


def test_every_picture_is_there():
    pictures = re.findall(r"\]\((figures/[^)]+)\)", PAGE)
    assert len(pictures) == 4
    assert all((DOCS / picture).exists() for picture in pictures)


KEYS = ("partition", "schedule", "attack")
SCHEDULES = ("fixed", "every-k-rounds", "batches", "every-round")


@pytest.fixture(scope="module")
def runs():
    return read_folder(DOCS.parent / "results" / "schedules")


def costs(runs, partition, attack, measure):
    """Return the mean over the seeds for each schedule, in the order of the page."""
    found = {name: [] for name in SCHEDULES}
    for log in runs:
        kind, schedule, against = (log.header.arm[key] for key in KEYS)
        if (kind, against) == (partition, attack):
            found[schedule].append(measure(log))
    return [np.mean(values) for values in found.values()]


@pytest.mark.parametrize("partition", ["iid", "three labels each"])
@pytest.mark.parametrize(
    ("start", "attack"),
    [("no attack", "none"), ("accuracy attack", "accuracy attack"), ("backdoor", "backdoor")],
)
def test_what_the_schedules_cost_in_accuracy(runs, partition, start, attack):
    shown = [float(cell) for cell in cells(f"{partition}, {start}: accuracy")]
    assert shown == pytest.approx(costs(runs, partition, attack, lambda log: 100 * log.rounds[-1].accuracy), abs=0.051)


@pytest.mark.parametrize("partition", ["iid", "three labels each"])
def test_how_often_the_backdoor_succeeds_under_each_schedule(runs, partition):
    shown = [float(cell) for cell in cells(f"{partition}, backdoor: success")]
    assert shown == pytest.approx(
        costs(runs, partition, "backdoor", lambda log: 100 * log.rounds[-1].success), abs=0.051
    )


def test_what_the_meter_read_in_these_runs(runs):
    shown = [float(cell) for cell in cells("clients determined by all rounds")]
    assert shown == costs(runs, "iid", "none", lambda log: log.rounds[-1].leak.exposed)
    shown = [float(cell) for cell in cells("smallest group determined")]
    assert shown == costs(runs, "iid", "none", lambda log: log.rounds[-1].leak.crowd)
