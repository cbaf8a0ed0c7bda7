"""A run that leads nowhere ends: rounds that are skipped, and rounds in which nobody's training changed anything."""

import numpy as np
import pytest

from f2ed import Mean
from f2ed.core.errors import OutageError
from f2ed.flower.setbacks import Setbacks
from f2ed.protocol.aggregation import StepResult, StepState
from f2ed.records import read
from tests.flower.helped_nodes import HelpedNodes, lead


def estimated(rows):
    return StepResult(Mean()(np.array(rows, np.float32)), None, StepState())


MOVED, IDLE = estimated([[1.0, 0.0], [0.0, 0.0]]), estimated([[0.0, 0.0], [0.0, 0.0]])
SKIPPED = StepResult(None, "nothing was opened", StepState())


def test_as_many_rounds_as_were_set_may_be_skipped_in_a_row():
    setbacks = Setbacks(2)
    for result, finished in ((SKIPPED, 0), (MOVED, 1), (SKIPPED, 1)):
        setbacks.after(result, finished=finished)
    with pytest.raises(OutageError, match=r"round 2 was skipped 2 times in a row, .* nothing was opened"):
        setbacks.after(SKIPPED, finished=1)


def test_so_may_rounds_that_change_nothing(caplog):
    setbacks = Setbacks(2)
    for result, finished in ((IDLE, 1), (MOVED, 2), (IDLE, 3)):
        setbacks.after(result, finished=finished)
    assert caplog.text.count("the mean of all updates is exactly zero") == 2
    with pytest.raises(
        OutageError, match="in 2 rounds in a row, up to round 4, the mean of all updates is exactly zero"
    ):
        setbacks.after(IDLE, finished=4)


def test_with_helpers_an_app_that_fails_everywhere_does_not_pass_for_a_run_that_trained(tmp_path):
    def fault(_message, _context):
        raise ValueError("no such column")

    it = HelpedNodes(tmp_path, fault=fault)
    with pytest.raises(OutageError, match="or it failed at every client, for which with helpers zeros leave"):
        lead(it, 5, max_skipped=2)
    assert len(read(tmp_path / "run.jsonl").rounds) == 2
