"""Rivals' rules run from a checkout of theirs, here a tiny one made up for the tests."""

import hashlib
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from f2ed.core.errors import ConfigError
from f2ed.experiments.file import parse
from f2ed.experiments.grid import expand
from f2ed.simulation.first_round_cache import FirstRoundCache

HERE = Path(__file__).parents[2] / "benchmarks" / "rivals"
ALIGN_INS = """
import torch
import torchvision
from utils import HALF


class Aggregation:
    def __init__(self, sizes, n_params, args):
        self.args = args

    def agg_alignins(self, updates, model):
        print("noise on the terminal")
        return HALF * torch.stack(list(updates.values())).mean(0) - self.args.sparsity * model
"""
FOOLS_GOLD = """
import ray
import torch
from backfed.shared import One


@ray.remote
class Actor(ray.Base):
    pass


class FoolsGoldServer(One):
    def aggregate_client_updates(self, updates):
        for client, _, state in updates:
            before = self.update_history.get(client, 0)
            self.update_history[client] = before + torch.ones(1)
        for name, tensor in self.global_model_params.items():
            tensor.add_(float(sum(self.update_history.values())))
"""


@pytest.fixture(autouse=True)
def checkouts(tmp_path, monkeypatch):
    """Two made-up projects, both with a module `utils`."""
    monkeypatch.syspath_prepend(str(HERE))
    for path, text in {
        "AlignIns/src/aggregation.py": ALIGN_INS,
        "AlignIns/src/utils.py": "HALF = 0.5\n",
        "FLAME/utils/__init__.py": "",
        "FLAME/utils/defense.py": "NAME = 'flame'\n",
        "BackFed/backfed/servers/foolsgold_server.py": FOOLS_GOLD,
        "BackFed/backfed/shared.py": "class One:\n    pass\n",
    }.items():
        file = tmp_path / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    monkeypatch.setenv("F2ED_RIVALS", str(tmp_path))
    import checkouts as module
    import rules

    module.imported_from.cache_clear()
    monkeypatch.setattr(rules, "_PINS", {"AlignIns": "", "FLAME": "", "BackFed/foolsgold_server": ""})
    return module


def this_round(d, **fields):
    from this_round import ThisRound

    return ThisRound(torch.arange(d, dtype=torch.float32), ("a.weight", "a.bias"), ((d - 1,), (1,)), **fields)


def test_a_module_is_imported_with_its_neighbors_and_leaves_no_trace(checkouts):
    before = dict(sys.modules)
    module = checkouts.imported_from("AlignIns/src", "aggregation", unused=("torchvision",))
    assert module.HALF == 0.5
    assert checkouts.imported_from("FLAME", "utils.defense").NAME == "flame"
    assert {name for name in sys.modules if name not in before} == set()
    assert all(sys.modules[name] is module for name, module in before.items())


def test_another_version_of_the_source_is_refused(checkouts, tmp_path):
    found = hashlib.sha256((tmp_path / "AlignIns/src/utils.py").read_bytes()).hexdigest()
    assert checkouts.imported_from("AlignIns/src", "utils", sha256=found[:12]).HALF == 0.5
    with pytest.raises(ConfigError, match=r"the records are of 0123…"):
        checkouts.imported_from("AlignIns/src", "utils", sha256="0123")


def test_what_is_missing_is_named(checkouts, monkeypatch):
    with pytest.raises(ConfigError, match="RFA does not exist; check the project out there"):
        checkouts.imported_from("RFA", "model")
    checkouts.source_of("FLAME/utils/defense.py").write_text("import torchvision_of_tomorrow\n")
    with pytest.raises(ConfigError, match="cannot be imported: No module named 'torchvision_of_tomorrow'"):
        checkouts.imported_from("FLAME", "utils.defense")
    monkeypatch.delenv("F2ED_RIVALS")
    with pytest.raises(ConfigError, match="F2ED_RIVALS is not set"):
        checkouts.source_of("FLAME")


def test_a_rule_calls_the_rivals_function_with_rows_and_model(capsys):
    import rules
    from this_round import serving

    rows = np.random.default_rng(0).normal(size=(6, 9)).astype(np.float32)
    torch.manual_seed(3)
    before = torch.random.get_rng_state()
    with serving(this_round(9)):
        found = rules.AlignIns(sparsity=0.25)(rows).mean
    np.testing.assert_allclose(found, 0.5 * rows.mean(0) - 0.25 * np.arange(9), rtol=1e-5)
    assert capsys.readouterr().out == ""
    assert torch.equal(before, torch.random.get_rng_state())


def test_a_rule_without_a_round_is_refused_unless_it_is_only_tried():
    import rules

    assert len(rules.AlignIns()(np.ones((3, 4))).mean) == 4
    with pytest.raises(ConfigError, match=r"needs the global model; run the file with benchmarks/rivals/run\.py"):
        rules.AlignIns()(np.ones((3, 5)))


def test_the_memory_of_a_rule_comes_from_its_last_call():
    import rules
    from this_round import serving

    rows, rule = np.zeros((3, 5), np.float32), rules.BackFedFoolsGold()
    first = this_round(5)
    with serving(first):
        for _ in range(2):  # an attacker tries the rule before the server uses it
            np.testing.assert_array_equal(rule(rows).mean, 3)
    with serving(this_round(5, memory=first.remembered)):
        np.testing.assert_array_equal(rule(rows).mean, 6)


def test_a_run_shows_its_rule_the_model_of_each_round_and_writes_records(tmp_path, monkeypatch):
    import rules
    import run

    seen = []
    step = rules.AlignIns.step
    monkeypatch.setattr(rules.AlignIns, "step", lambda *args: seen.append(args[2]) or step(*args))
    (cell,) = expand(
        parse(
            """
            data = { kind = "synthetic", train = 60, test = 20, side = 4 }
            model = "logistic"
            clients = 6
            malicious = 1
            shards = "none"
            rounds = 2
            estimator = { kind = "imported", factory = "rules:AlignIns", settings = { sparsity = 0.0 } }
            """,
            "small.toml",
        )
    )
    data = cell.experiment.data.load(None)
    last = run.run(cell, run.Where(tmp_path / "out", "cpu", None, 0.0), data, FirstRoundCache())
    first, second = [this for this in seen if len(this.model) > 4]
    assert (first.number, second.number) == (0, 1)
    assert not torch.equal(first.model, second.model)
    assert sum(map(len, map(torch.flatten, first.tensors(first.model).values()))) == len(first.model)
    assert last.round == 1
    (written,) = (tmp_path / "out").glob("*.jsonl")
    assert len(written.read_text().splitlines()) == 3
    assert run.finished_before(cell, tmp_path / "out") is not None


def test_the_log_of_risefl_is_read_by_size():
    import risefl

    log = "DIM 1000 SAMPLES 50\nclient\n Total: 1.5 seconds\nserver\n Total: 47 seconds\nDIM 10 SAMPLES 50\n"
    (found,) = risefl.read(log.rpartition("DIM")[0])
    assert found == {"clients": 100, "coordinates": 1000, "samples": 50, "client_s": 1.5, "server_s": 47.0}


def test_fedgt_is_told_the_recall_of_each_class_and_averages_who_is_left():
    import fedgt
    from this_round import ThisRound, serving

    images, labels = torch.zeros(20, 1, 28, 28), torch.arange(20) % 10
    vector = torch.zeros(7850)
    vector[7840 + 3] = 1.0  # answers three to everything
    accuracy, matrix, precision, recall, *_ = fedgt.Server(vector, (images, labels)).evaluate(
        test_data=False, eval_model=fedgt._named(vector)
    )
    assert accuracy == 0.1
    assert matrix[:, 3].sum() == 20
    np.testing.assert_array_equal(recall, np.arange(10) == 3)
    assert precision[3] == 0.1
    this = ThisRound(vector, ("a",), ((7850,),), 5, {"malicious": np.array([False, True, False])})
    rows = np.stack([np.full(7850, value, np.float32) for value in (1.0, 9.0, 3.0)])
    with serving(this):
        np.testing.assert_array_equal(fedgt.FedGt()(rows).mean, 2)
    assert this.remembered["malicious"].tolist() == [False, True, False]
