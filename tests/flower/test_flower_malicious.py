"""The example with a malicious client, over a grid in this process: its own server and its own clients."""

import sys
from pathlib import Path

import msgspec
import pytest
from flwr.app import Context, RecordDict

from tests.flower.fake_grid import FakeGrid, Node, real_roster

EXAMPLE = Path(__file__).parents[2] / "examples" / "05_flower_malicious"


@pytest.fixture(autouse=True)
def example(monkeypatch):
    monkeypatch.syspath_prepend(str(EXAMPLE))
    yield
    for name in [name for name in sys.modules if name.partition(".")[0] == "blobs"]:
        del sys.modules[name]


def run(folder, caplog, **changes):
    """Return the audit lines and what was measured after each round."""
    from blobs import client_app, server_app

    roster, own = real_roster(folder, 12, shards=4)
    files = {"f2ed-roster": str(folder / "roster.json"), "f2ed-audit": str(folder / "audit.jsonl")}
    settings = {"num-rounds": 2, "malicious": 1, "epsilon": 0.25} | files | changes
    grid = FakeGrid([Node(client, client_app.app, own[client], settings) for client in range(12)])
    with caplog.at_level("INFO", logger="flwr"):
        server_app.app(grid, Context(1, 1, {}, RecordDict(), settings))
    audit = [msgspec.json.decode(line) for line in (folder / "audit.jsonl").read_bytes().splitlines()]
    measured = [record.args[1] for record in caplog.records if record.msg == "f2ed: after round %s: %s"]
    return roster.plan(0).shard_of(0), audit, measured


def test_the_spoilt_shard_has_no_weight_and_a_plain_mean_would_have_followed_it(tmp_path, caplog):
    spoilt, audit, measured = run(tmp_path, caplog)
    assert all(line["weights"][str(spoilt)] == 0 for line in audit)
    assert f"not believed: shard {spoilt};" in caplog.text
    assert measured[1]["accuracy"] > 0.9
    assert measured[1]["with-a-plain-mean"] < 0.2


def test_without_the_filter_the_attacker_wins(tmp_path, caplog):
    _, audit, measured = run(tmp_path, caplog, epsilon=0.0)
    assert measured[-1]["accuracy"] < 0.2
    assert all(min(line["weights"].values()) > 0 for line in audit if line["weights"])


def test_without_an_attacker_both_means_learn(tmp_path, caplog):
    _, _, measured = run(tmp_path, caplog, malicious=0)
    assert min(measured[-1].values()) > 0.9
