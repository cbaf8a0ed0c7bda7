"""The page on what the server learns says what the audit behind it found."""

import json
import re
from pathlib import Path

import pytest

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
def test_the_images_found_by_optimisation(size):
    shown = dict(zip((1, 2, 4, 8, 16), cells("PSNR, dB (guess"), strict=True))
    assert float(shown[size]) == pytest.approx(found("PSNR, dB", "untrained convolutional model", shard=size), abs=0.51)


def test_every_picture_is_there():
    pictures = re.findall(r"\]\((figures/[^)]+)\)", PAGE)
    assert len(pictures) == 4
    assert all((DOCS / picture).exists() for picture in pictures)
