"""Helpers that are killed, restarted or restored from a backup, under F2ed: each ends in a mean or a named outcome."""

import shutil
import time

import numpy as np
import pytest
from flwr.app import Message

from f2ed.core.errors import OutageError
from f2ed.flower.courier import SILENT
from f2ed.flower.wire import carried_bytes, hello_nonce, reply_content
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


class Swallowing:
    """The node of a helper ends with one request of each kind that it took, before or after its helper stored it."""

    def __init__(self, it, role, *, stored):
        self.asked, self._swallowed, self._stored = [], set(), stored
        node = it.helpers[role]
        self._answer, node.answer = node.answer, self.answer

    def answer(self, node, run, message):
        if hello_nonce(message) is not None:
            return self._answer(node, run, message)
        request = carried_bytes(message)
        self.asked.append(request)
        if request in self._swallowed:
            return self._answer(node, run, message)
        self._swallowed.add(request)
        if self._stored:
            self._answer(node, run, message)
        return None


@pytest.mark.parametrize("stored", [True, False])
@pytest.mark.parametrize("role", ["mixer", "judge"])
def test_a_request_that_is_lost_with_the_node_is_asked_again_long_before_the_deadline(
    tmp_path, role, stored, monkeypatch, caplog
):
    monkeypatch.setattr("f2ed.flower.transport._AGAIN", 0.1)
    it = HelpedNodes(tmp_path)
    lost = Swallowing(it, role, stored=stored)
    since = time.monotonic()
    server, arrays = lead(it, deadline=300, train_deadline=300)
    assert [each.skipped for each in server.records] == [None]
    assert time.monotonic() - since < 60
    # Every request came twice, as the same bytes, and no other for its step.
    assert lost.asked == [each for request in lost.asked[::2] for each in (request, request)]
    assert len(set(lost.asked)) == STEPS[role]
    assert f"the {role} gave no answer for 0 s, and is asked again" in caplog.text
    assert server.records[0].deployed.relayed[role] > 2 * sum(map(len, set(lost.asked)))
    step = np.mean([change(client, 1) for client in range(6)], axis=0)
    np.testing.assert_allclose(vector(arrays), vector(model()) + step, atol=2.0**-19)


def test_one_that_never_answers_is_asked_a_few_times_and_given_up_at_the_deadline(tmp_path, monkeypatch):
    monkeypatch.setattr("f2ed.flower.transport._AGAIN", 0.1)
    it = HelpedNodes(tmp_path)
    asked = []
    answer = it.helpers["judge"].answer
    it.helpers["judge"].answer = lambda node, run, message: (
        answer(node, run, message) if hello_nonce(message) else asked.append(carried_bytes(message))
    )
    with pytest.raises(OutageError, match=r"the judge gave no opening: no reply \(late: no reply within 2 s\)"):
        lead(it, deadline=2, train_deadline=2, max_skipped=1)
    # Again after 0.1, 0.3, 0.7 and 1.5 s, on a machine that has the time.
    assert 2 <= len(asked) <= 5
    assert len(set(asked)) == 1


def test_clients_are_asked_once_however_slow_they_are(tmp_path, monkeypatch):
    monkeypatch.setattr("f2ed.flower.transport._AGAIN", 0.05)
    it = HelpedNodes(tmp_path)
    received = []
    slow = it.clients[0]
    answer = slow.answer
    slow.answer = lambda node, run, message: (
        received.append(hello_nonce(message)) or (answer(node, run, message) if hello_nonce(message) else None)
    )
    server, _ = lead(it, deadline=1, train_deadline=1)
    assert server.records[0].dropped == {0: "late: no reply within 1 s"}
    assert received.count(None) == 1


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
