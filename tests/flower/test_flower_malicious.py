"""The example with a malicious client, over a grid in this process: its own server and its own clients."""

import sys
from pathlib import Path

import pytest
from flwr.app import Context, RecordDict

from f2ed.records import read
from tests.flower.fake_grid import FakeGrid, Node, real_roster

EXAMPLE = Path(__file__).parents[2] / "examples" / "05_flower_malicious"


@pytest.fixture(autouse=True)
def example(monkeypatch):
    monkeypatch.syspath_prepend(str(EXAMPLE))
    yield
    for name in [name for name in sys.modules if name.partition(".")[0] == "blobs"]:
        del sys.modules[name]


def run(folder, caplog, **changes):
    """Return the contaminated shard, the records and what was measured after each round."""
    from blobs import client_app, server_app

    roster, own = real_roster(folder, 12, shards=4)
    files = {"f2ed-roster": str(folder / "roster.json"), "f2ed-records": str(folder / "run.jsonl")}
    settings = {"num-rounds": 2, "malicious": 1, "contamination": 0.25} | files | changes
    grid = FakeGrid([Node(client, client_app.app, own[client], settings) for client in range(12)])
    with caplog.at_level("INFO", logger="flwr"):
        server_app.app(grid, Context(1, 1, {}, RecordDict(), settings))
    measured = [record.args[1] for record in caplog.records if record.msg == "f2ed: after round %s: %s"]
    return roster.assignment(0).shard_of(0), read(folder / "run.jsonl").rounds, measured


def test_the_contaminated_shard_has_no_weight_and_a_plain_mean_would_have_followed_it(tmp_path, caplog):
    contaminated, records, measured = run(tmp_path, caplog)
    assert [record.weights[contaminated] for record in records] == [0, 0]
    assert [record.accuracy for record in records] == [found["accuracy"] for found in measured[1:]]
    assert f"rejected: shard {contaminated};" in caplog.text
    assert measured[1]["accuracy"] > 0.9
    assert measured[1]["with-a-plain-mean"] < 0.2


def test_without_the_filter_the_attacker_wins(tmp_path, caplog):
    _, records, measured = run(tmp_path, caplog, contamination=0.0)
    assert measured[-1]["accuracy"] < 0.2
    assert all(min(record.weights) > 0 for record in records)


def test_without_an_attacker_both_means_learn(tmp_path, caplog):
    _, _, measured = run(tmp_path, caplog, malicious=0)
    assert min(measured[-1].values()) > 0.9
