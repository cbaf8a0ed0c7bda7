"""Rounds with helpers over a grid: means, and a named outcome for each party that is late, lies or is not there."""

import numpy as np
import pytest
from flwr.app import ConfigRecord
from msgspec.structs import replace

from f2ed.core.errors import ConfigError
from f2ed.deployment import helped_step
from f2ed.deployment.roster import helped_terms
from f2ed.flower import F2ed, HelpedRounds
from f2ed.flower.wire import reply_content
from f2ed.protocol.helpers import plain_mean
from tests.flower.fake_grid import change, model, silence, vector
from tests.flower.helped_nodes import RUN, SIZE, HelpedNodes

STEP = 2.0**-20
"""One integer step at a clip norm of 1."""


def rounds_of(it, **settings):
    given = {"roster": it.folder / "roster.json", "server_key": it.folder / "server.key"}
    return HelpedRounds(it.grid, **given | {"deadline": 0.3, "train_deadline": 0.3} | settings)


def test_rounds_move_the_model_by_the_mean_of_all_clients(tmp_path):
    it = HelpedNodes(tmp_path)
    rounds, arrays, place = rounds_of(it, rows_folder=tmp_path), model(), vector(model())
    for number in (1, 2):
        arrays, outcome = rounds.lead(arrays, ConfigRecord({"lr": 0.1}), number)
        assert outcome.aborted is None
        place = place + np.mean([change(client, number) for client in range(6)], axis=0)
        np.testing.assert_allclose(vector(arrays), place, atol=3 * STEP)
    assert not list(tmp_path.glob("*.rows"))


def test_the_mean_is_that_of_the_clear_to_the_bit(tmp_path, monkeypatch):
    it, rows, true = HelpedNodes(tmp_path), [], helped_step.encoded

    def recorded(update, *, key):
        return lambda terms: rows.append(true(update, key=key)(terms)) or rows[-1]

    monkeypatch.setattr(helped_step, "encoded", recorded)
    _, outcome = rounds_of(it).lead(model(), ConfigRecord(), 1)
    terms = helped_terms(it.roster, it.roster.job(RUN), 0, coordinates=SIZE)
    clear = plain_mean(terms, dict(enumerate(rows)), halves=(bytes(32), bytes(32)), before=None)
    assert clear.kept == outcome.kept
    np.testing.assert_array_equal(clear.mean, outcome.mean)


def test_a_silent_client_takes_its_group_out_of_the_sum_and_comes_back(tmp_path):
    it = HelpedNodes(tmp_path)
    rounds, gone = rounds_of(it), it.roster.groups[0].members[0]
    rounds.lead(model(), ConfigRecord(), 1)
    it.clients[gone].tamper = silence
    _, outcome = rounds.lead(model(), ConfigRecord(), 2)
    assert outcome.kept == it.roster.groups[1].members
    assert outcome.dropped == {gone: "upload: no reply"}
    it.clients[gone].tamper = None
    for number in (3, 4):
        _, outcome = rounds.lead(model(), ConfigRecord(), number)
    assert outcome.kept == tuple(range(6))


@pytest.mark.parametrize("role", ["mixer", "judge"])
@pytest.mark.parametrize("step", [0, 2, 4])
def test_a_helper_that_falls_silent_skips_the_round_and_not_the_run(tmp_path, role, step):
    it = HelpedNodes(tmp_path)
    rounds, replies, node = rounds_of(it), [], it.helpers[role]
    rounds.lead(model(), ConfigRecord(), 1)

    def fall_silent(_message, reply):
        replies.append(reply)
        return reply if len(replies) <= step else None

    node.tamper = fall_silent
    arrays, outcome = rounds.lead(model(), ConfigRecord(), 2)
    assert outcome.mean is None
    assert outcome.aborted.startswith(f"the {role} gave no ")
    np.testing.assert_array_equal(vector(arrays), vector(model()))
    node.tamper = None
    assert rounds.lead(model(), ConfigRecord(), 3)[1].mean is not None


@pytest.mark.parametrize("role", ["mixer", "judge"])
@pytest.mark.parametrize("step", [0, 1, 3])
def test_a_helper_whose_bytes_are_altered_is_named(tmp_path, role, step):
    it = HelpedNodes(tmp_path)
    rounds, count = rounds_of(it), []
    rounds.lead(model(), ConfigRecord(), 1)

    def alter(message, reply):
        count.append(1)
        if len(count) - 1 != step:
            return reply
        return type(reply)(reply_content(b"garbage"), reply_to=message)

    it.helpers[role].tamper = alter
    _, outcome = rounds.lead(model(), ConfigRecord(), 2)
    assert outcome.mean is None
    assert role in outcome.aborted
    it.helpers[role].tamper = None
    assert rounds.lead(model(), ConfigRecord(), 3)[1].mean is not None


def test_what_a_helper_refuses_is_said(tmp_path):
    it = HelpedNodes(tmp_path)
    (tmp_path / "mixer" / f"mixer-{it.roster.lineage}.helper").unlink()
    _, outcome = rounds_of(it).lead(model(), ConfigRecord(), 1)
    assert "the mixer gave no opening" in outcome.aborted
    assert "it was lost" in outcome.aborted


def test_a_roster_that_does_not_fit_is_refused(tmp_path):
    it = HelpedNodes(tmp_path)
    with pytest.raises(ConfigError, match="not the key that the roster names for the server"):
        rounds_of(it, server_key=tmp_path / "client_0.key")
    with pytest.raises(ConfigError, match="has not countersigned it"):
        rounds_of(it, roster=replace(it.roster, countersignatures=()))
    with pytest.raises(ConfigError, match=r"lead its rounds with f2ed\.flower\.HelpedRounds"):
        F2ed(roster=it.roster)


def test_a_roster_without_helpers_is_refused(federation, tmp_path):
    grid, _, roster = federation()
    with pytest.raises(ConfigError, match="names no helpers"):
        HelpedRounds(grid, roster=roster, server_key=tmp_path / "client_0.key")
