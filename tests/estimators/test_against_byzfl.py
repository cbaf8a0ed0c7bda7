"""The same answers as ByzFL where the definitions agree, and other ones where the documentation says so."""

import json
from pathlib import Path

import numpy as np
import pytest

from f2ed import estimators as e

FOUND = json.loads((Path(__file__).parent / "byzfl.json").read_text("utf-8"))
ROWS, F, ANSWERS = [np.array(row) for row in FOUND["rows"]], FOUND["f"], FOUND["answers"]
SAME = {
    "Average": e.Mean(),
    "Median": e.Median(),
    "TrMean": e.TrimmedMean(f=F),
    "MultiKrum": e.MultiKrum(f=F),
    "GeometricMedian": e.GeometricMedian(),  # ByzFL's with 2,000 steps
    "MDA": e.MDA(f=F),
    "SMEA": e.SMEA(f=F),
    "MoNNA": e.MoNNA(f=F, trusted=3),
    "Meamed": e.MeaMed(f=F),
    "CenteredClipping": e.CenteredClipping(radius=2.0, iterations=3),
    "NNM+TrMean": e.NNM(f=F, inner=e.TrimmedMean(f=F)),
    "Clipping+Average": e.Clipping(2.0, e.Mean()),
    "ARC+Average": e.ARC(f=F, inner=e.Mean()),
}
OTHER = {"Krum": e.Krum(f=F), "CAF": e.FilterL2(f=F)}


def test_every_answer_is_compared():
    assert set(ANSWERS) == {*SAME, *OTHER}


@pytest.mark.parametrize("name", SAME)
def test_rules_of_the_same_definition_agree(name):
    assert SAME[name].aggregate(ROWS) == pytest.approx(ANSWERS[name], abs=1e-7)


@pytest.mark.parametrize("name", OTHER)
def test_the_documented_differences_are_there(name):
    assert OTHER[name].aggregate(ROWS) != pytest.approx(ANSWERS[name], abs=0.1)


def test_krum_differs_by_one_neighbor():
    distances = np.square(np.subtract.outer(np.array(ROWS), np.array(ROWS)).diagonal(axis1=1, axis2=3)).sum(-1)
    ordered = np.sort(distances, axis=1)[:, 1:]  # without the row itself
    n = len(ROWS)
    assert ROWS[ordered[:, : n - F - 2].sum(1).argmin()].tolist() == e.Krum(f=F).aggregate(ROWS).tolist()
    assert ROWS[ordered[:, : n - F - 1].sum(1).argmin()].tolist() == ANSWERS["Krum"]
