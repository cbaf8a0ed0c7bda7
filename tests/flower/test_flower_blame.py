"""A client that deals garbage: the record and the server's log name it, with evidence that everyone can check."""

import os
from unittest.mock import patch

import msgspec
import pytest

from f2ed.deployment.keyfiles import write_pair
from f2ed.deployment.transparency import Authors, compare_logs, read_line, verify_logs, write_line
from f2ed.deployment.transparency.lines import Blamed, signed_line
from f2ed.protocol.secagg import public_key
from f2ed.protocol.secagg.schemes.dropout_tolerant import client, dealing
from f2ed.records import read
from tests.flower.fake_grid import FakeGrid, Node, model, real_roster, server, user_app

MASTER = os.urandom(32)
LIAR, SIZE = 3, 6


def garbage(phase, peers, member, given):
    """Deal as the protocol says, but seal every parcel of one client with a key that nobody has."""
    if member.id != LIAR:
        return HONEST(phase, peers, member, given)
    with patch.object(
        dealing, "seal", lambda _, plain, *, associated: SEAL(os.urandom(32), plain, associated=associated)
    ):
        return HONEST(phase, peers, member, given)


HONEST, SEAL = client.deal, dealing.seal


@pytest.fixture(scope="module")
def led(tmp_path_factory):
    """Lead a round with the liar in it; return the roster, the folder and the records."""
    folder = tmp_path_factory.mktemp("blame")
    write_pair(folder / "server.key", MASTER)
    fields = {"server": public_key(MASTER)}
    roster, settings = real_roster(folder, SIZE, shards=1, mode="dropout-tolerant", fields=fields)
    nodes = [Node(each, user_app(), settings[each]) for each in range(SIZE)]
    leader = server(roster, records=folder / "run.jsonl", server_key=folder / "server.key", wait_for_nodes=0.0)
    with patch.object(client, "deal", garbage):
        leader.start(FakeGrid(nodes), model(), num_rounds=1)
    return roster, folder


def test_the_record_names_the_dealer_and_no_recipient(led):
    _, folder = led
    (record,) = read(folder / "run.jsonl").rounds
    (blamed,) = record.deployed.blamed
    assert (blamed.shard, blamed.clients, blamed.fault) == (0, (LIAR,), "disputes")
    assert "client 3 is in dispute with client 0, 1, 2" in blamed.reason
    assert record.dropped.keys() == {LIAR}
    assert record.skipped is None


def paths(led):
    roster, folder = led
    return [folder / "run.log", *(folder / f"client_{each}.state" / f"{roster.lineage}.log" for each in range(SIZE))]


def test_the_servers_log_holds_evidence_that_everyone_can_check(led):
    roster, folder = led
    result = compare_logs(paths(led), Authors.of([roster]))
    (finding,) = result.findings
    assert finding.kind == "blamed"
    assert not finding.serious
    assert "round 0, shard 0: client 3 (client_3): client 3 is in dispute" in finding.text
    (line,) = finding.lines
    assert len(line.data.blame.evidence) == SIZE - 1
    assert line in [read_line(text) for text in (folder / "run.log").read_bytes().splitlines()]


FALSE = {
    "another client": lambda blame: {"blame": msgspec.structs.replace(blame, clients=(1,))},
    "fewer complaints than convict": lambda blame: {
        "blame": msgspec.structs.replace(blame, evidence=blame.evidence[:1])
    },
    "no evidence": lambda blame: {"blame": msgspec.structs.replace(blame, evidence=())},
    "a stranger": lambda blame: {"blame": msgspec.structs.replace(blame, clients=(99,))},
    "another fault": lambda blame: {"blame": msgspec.structs.replace(blame, fault="shares")},
    "nobody": lambda blame: {"blame": msgspec.structs.replace(blame, clients=())},
    "another round": lambda _: {"ctx": bytes(32)},
    "a shard that is not there": lambda _: {"shard": 7},
    "the shard after the last": lambda _: {"shard": 1},
}


@pytest.mark.parametrize("lie", FALSE)
def test_a_false_blame_is_found(led, tmp_path, lie):
    roster, folder = led
    texts = (folder / "run.log").read_bytes().splitlines()
    lines = [read_line(text) for text in texts]
    at = next(place for place, line in enumerate(lines) if isinstance(line.data, Blamed))
    data = msgspec.structs.replace(lines[at].data, **FALSE[lie](lines[at].data.blame))
    false = signed_line(msgspec.structs.replace(lines[at], data=data), MASTER, lineage=roster.lineage)
    (tmp_path / "run.log").write_bytes(b"".join(text + b"\n" for text in (*texts[:at], write_line(false))))
    (finding,) = verify_logs([tmp_path / "run.log"], Authors.of([roster])).findings
    assert finding.kind == "false-blame"
    assert finding.serious


def test_without_its_roster_a_blame_is_not_checked_and_that_is_said(led):
    roster, folder = led
    authors = Authors.of([roster])._replace(rosters={})
    (finding,) = verify_logs([folder / "run.log"], authors).findings
    assert finding.kind == "blamed"
    assert "not checked: give the roster with serial 1 too" in finding.text
