"""A server that tells members different things, or shows two histories, is found by comparing the logs afterwards.

The nodes are real: `protect`, key files, state folders and a signed roster. Whatever is found comes with signed lines.
"""

import shutil
from pathlib import Path

import msgspec
import numpy as np
import pytest
from flwr.app import Array, ArrayRecord

from f2ed.deployment.keyfiles import read_private
from f2ed.deployment.transparency import Authors, compare_logs, read_line, verify_logs
from f2ed.deployment.transparency.lines import SERVER, Began, Confirmed, Refused, check_line
from f2ed.deployment.transparency.store import LogFile
from tests.adversary.lying_server import MEMBERS, VICTIM, LyingServer, app_with, model, training_request
from tests.flower.lying_server import LyingServer as ShardServer
from tests.flower.test_flower_log import MASTER, Deployment


def log_of(folder, roster, client):
    return folder / f"client_{client}.state" / f"{roster.lineage}.log"


def compared(folder, roster, clients=range(MEMBERS)):
    return compare_logs([log_of(folder, roster, client) for client in clients], Authors.of([roster]))


def signed_by(finding, roster):
    """Check every signature of the evidence with the roster's keys alone; return the authors."""
    for line in finding.lines:
        check_line(line, roster.keys[line.by], lineage=roster.lineage)
    return {line.by for line in finding.lines}


def other_model():
    return ArrayRecord({**model(), "n": Array(np.array([1, 4]))})


SPLITS = {
    "settings": (training_request({"server-round": 1, "lr": 1.0}), training_request({"server-round": 1, "lr": 0.0})),
    "model": (training_request(arrays=other_model()), training_request()),
}


@pytest.mark.parametrize("what", SPLITS)
def test_a_victim_that_is_told_something_else_is_found_with_both_signed_lines(tmp_path, what):
    to_victim, to_others = SPLITS[what]
    server = LyingServer(tmp_path, app_with(lambda *_: 1.0)).lead(to_victim, to_others)
    result = compared(tmp_path, server.roster)
    assert {finding.kind for finding in result.findings} == {"split-view"}
    (inputs,) = (finding for finding in result.findings if "values of input" in finding.text)
    assert VICTIM in signed_by(inputs, server.roster)
    assert len({line.data.input for line in inputs.lines if isinstance(line.data, Began)}) == 2


def test_a_run_with_other_settings_for_one_member_is_found(tmp_path):
    server = LyingServer(tmp_path, app_with(lambda *_: 1.0))
    server.nodes[VICTIM].run_config = {"lr": 0.0}
    server.lead(training_request(), training_request())
    assert "split-view" in {finding.kind for finding in compared(tmp_path, server.roster).findings}


def test_members_that_are_told_the_same_leave_nothing_to_find(tmp_path):
    server = LyingServer(tmp_path, app_with(lambda *_: 1.0)).lead(training_request(), training_request())
    assert server.opened() is not None
    assert not compared(tmp_path, server.roster).findings


def test_a_split_list_of_survivors_is_found(tmp_path):
    server = ShardServer(tmp_path, 12, mode="dropout-tolerant", colluders=0)
    terms = server.terms()
    uploaded = server.uploaded(terms)
    one, other = uploaded[:-1], uploaded[1:]
    server.split({client: other if client == uploaded[-1] else one for client in uploaded})
    result = compared(tmp_path, server.roster, uploaded)
    (found,) = (finding for finding in result.findings if "values of survivors" in finding.text)
    signed_by(found, server.roster)
    assert {line.data.survivors for line in found.lines if isinstance(line.data, Confirmed)} == {one, other}


def test_what_a_node_refused_is_in_its_log_with_the_reason(tmp_path):
    server = LyingServer(tmp_path, app_with(lambda *_: 1.0))
    server.lead(training_request(more=model()), training_request())
    last = read_line(log_of(tmp_path, server.roster, VICTIM).read_bytes().splitlines()[-1])
    assert isinstance(last.data, Refused)
    assert "'more'" in last.data.reason


def test_a_round_that_a_server_asked_for_and_hides_is_found(tmp_path):
    deployment = Deployment(tmp_path)
    deployment.lead(3)
    path = deployment.records.with_suffix(".log")
    lines = deployment.lines()
    path.unlink()
    key = LogFile(path, SERVER, MASTER, deployment.roster.lineage, deployment.roster.digest, deployment.roster.serial)
    key.append(lines[2].data, lines[4].data)
    found = {finding.kind: finding for finding in deployment.compared().findings}
    assert found.keys() == {"unlisted-round"}
    assert found["unlisted-round"].lines[0].data.round == 1


def test_a_server_that_shows_two_histories_is_found(tmp_path):
    deployment = Deployment(tmp_path)
    deployment.lead(2)
    shown = deployment.records.with_suffix(".log")
    other = tmp_path / "shown_to_others.log"
    shutil.copy(shown, other)
    whole = other.read_bytes().splitlines(keepends=True)
    other.write_bytes(b"".join(whole[:-1]))
    last = read_line(whole[-1][:-1]).data
    roster = deployment.roster
    fork = LogFile(other, SERVER, MASTER, roster.lineage, roster.digest, roster.serial)
    fork.append(msgspec.structs.replace(last, after=bytes(32)))
    for path in (shown, other):  # each is well by itself
        assert not verify_logs([path], Authors.of([roster])).findings
    (found,) = compare_logs([shown, other], Authors.of([roster])).findings
    assert found.kind == "equivocation"
    assert len({line.data.after for line in found.lines}) == 2


def test_a_node_cannot_take_back_the_line_that_it_sent(tmp_path):
    deployment = Deployment(tmp_path)
    deployment.lead(1)
    path = deployment.path(VICTIM)
    lines = deployment.lines(VICTIM)
    path.unlink()
    roster = deployment.roster
    config = deployment.nodes[VICTIM].node_config
    forged = LogFile(path, VICTIM, read_private(Path(config["f2ed-key"])), roster.lineage, roster.digest, roster.serial)
    began = next(line.data for line in lines if isinstance(line.data, Began))
    forged.append(lines[2].data, msgspec.structs.replace(began, input=bytes(32)), lines[-1].data)
    assert not verify_logs([path], Authors.of([roster])).findings
    kinds = {finding.kind for finding in deployment.compared().findings}
    assert {"equivocation", "split-view"} <= kinds
