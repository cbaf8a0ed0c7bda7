"""Helpers that are killed, restarted or restored from a backup, under F2ed: each ends in a mean or a named outcome."""

import shutil

import numpy as np
import pytest
from flwr.app import Message

from f2ed.core.errors import OutageError
from f2ed.flower.courier import SILENT
from f2ed.flower.wire import hello_nonce, reply_content
from f2ed.protocol.helpers.messages import Refused, write
from tests.flower.fake_grid import change, model, vector
from tests.flower.helped_nodes import HelpedNodes, lead

STEPS = {"mixer": 8, "judge": 6}
"""Requests that a helper answers in a round."""


@pytest.fixture(autouse=True)
def _brief(monkeypatch):
    monkeypatch.setattr("f2ed.flower.persistent._PAUSE", 0.0)


class Killed:
    """In each round the process is killed at another step, before or after it has stored its answer."""

    def __init__(self, it, role, *, stored):
        self.round, self.step, self.lost, self._stored = 0, 0, [], stored
        node = it.helpers[role]
        self._answer, node.answer = node.answer, self.answer

    def answer(self, node, run, message):
        if hello_nonce(message) is None and self.step == self.round and self.round not in self.lost:
            self.lost.append(self.round)
            if self._stored:
                self._answer(node, run, message)
            return Message(reply_content(write(Refused(SILENT))), reply_to=message)
        self.step += hello_nonce(message) is None
        return self._answer(node, run, message)

    def next_round(self, _finished):
        self.round, self.step = self.round + 1, 0


@pytest.mark.nightly
@pytest.mark.parametrize("stored", [True, False])
@pytest.mark.parametrize("role", ["mixer", "judge"])
def test_a_helper_that_is_restarted_at_any_step_loses_no_round(tmp_path, role, stored):
    it = HelpedNodes(tmp_path)
    killed = Killed(it, role, stored=stored)
    server, arrays = lead(it, STEPS[role], on_round=killed.next_round, deadline=5, train_deadline=5)
    assert [each.skipped for each in server.records] == [None] * STEPS[role]
    assert killed.lost == list(range(STEPS[role]))
    steps = (np.mean([change(c, n) for c in range(6)], axis=0) for n in range(1, STEPS[role] + 1))
    np.testing.assert_allclose(vector(arrays), vector(model()) + sum(steps), atol=STEPS[role] * 2.0**-19)


@pytest.mark.parametrize("role", ["mixer", "judge"])
def test_a_memory_from_a_backup_is_found_out_and_named(tmp_path, role):
    it = HelpedNodes(tmp_path)
    lead(it, 1)
    shutil.copytree(tmp_path / role, tmp_path / "backup")
    lead(it, 3)
    shutil.rmtree(tmp_path / role)
    shutil.copytree(tmp_path / "backup", tmp_path / role)
    with pytest.raises(OutageError, match=f"the {role} gave no opening: it refused: the memory .* is an old copy"):
        lead(it, 4, max_skipped=2)


def test_a_server_from_a_backup_repeats_no_round(tmp_path):
    it = HelpedNodes(tmp_path)
    lead(it, 1)
    shutil.copy(tmp_path / "run.checkpoint", tmp_path / "backup")
    lead(it, 3)
    shutil.copy(tmp_path / "backup", tmp_path / "run.checkpoint")
    (tmp_path / "run.jsonl").unlink()
    server, _ = lead(it, 2)
    # Clients say which rounds they have answered, so the old checkpoint repeats none of them.
    assert [each.deployed.number for each in server.records] == [3]
