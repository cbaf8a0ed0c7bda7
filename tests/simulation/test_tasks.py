"""Regression, several labels, sequences and losses of your own, through whole runs."""

import numpy as np
import pytest
import torch
from torch import nn

import f2ed
from f2ed.core.errors import ConfigError
from f2ed.experiments.summary import summarize
from f2ed.learning.saved import save_model
from f2ed.records import RunLog, line, settings_digest
from f2ed.report.page import write_page
from f2ed.simulation import Simulation, experiment
from f2ed.simulation.first_round_cache import FirstRoundCache
from f2ed.simulation.header import digest
from tests.simulation.small_run import SMALL

RNG = np.random.default_rng(0)
X = RNG.normal(size=(300, 6)).astype(np.float32)
LINE = X @ RNG.normal(size=6)
TOKENS = (np.arange(9)[None, :] + RNG.integers(0, 5, size=(300, 1))) % 5


class Letters(nn.Module):
    def __init__(self):
        super().__init__()
        self.known, self.out = nn.Embedding(5, 8), nn.Linear(8, 5)

    def forward(self, tokens):
        return self.out(self.known(tokens))


def pinball(outputs, targets):
    off = targets - outputs[:, 0]
    return torch.maximum(0.7 * off, -0.3 * off).mean()


def largest(outputs, targets):
    return (outputs[:, 0] - targets).abs().max()


ARMS = (("mean", "none"), ("median", "sign-flip"), ("mean", "sign-flip"))


def split(x, y):
    return x[:240], y[:240], x[240:], y[240:]


BASE = {"clients": 12, "malicious": 1, "shards": 4, "rounds": 8, "training": {"lr": 0.1, "local_epochs": 2}}
TASKS = {
    "mse": {"data": split(X, LINE), "model": "logistic", "loss": "mse"},
    "bce": {"data": split(X, (X[:, :3] > 0).astype(int)), "model": "logistic", "loss": "bce"},
    "next-token": {"data": split(TOKENS[:, :-1], TOKENS[:, 1:]), "model": Letters, "loss": "next-token"},
    "own": {"data": split(X, LINE), "model": "logistic", "loss": pinball, "metric": largest},
}


@pytest.mark.parametrize("name", TASKS)
def test_a_run_learns_its_task_under_attack(name):
    run = f2ed.simulate(**BASE | TASKS[name], attack="sign-flip")
    first, last = run.records[0], run.records[-1]
    assert last.loss < 0.9 * first.loss
    assert (last.accuracy is None) == (name in {"mse", "own"})
    if name == "mse":
        assert last.metric == pytest.approx(last.loss**0.5)
    assert run.header.labels is None
    assert "loss" in run._repr_html_()
    assert b"NaN" not in line(last)


def test_a_run_without_accuracy_is_summed_up_by_its_loss():
    runs = [f2ed.simulate(**BASE | TASKS["mse"] | {"estimator": rule, "attack": attack}) for rule, attack in ARMS]
    summary = summarize([RunLog(run.header, run.records) for run in runs])
    assert [result.accuracy for result in summary.results] == [None] * 3
    assert summary.verdict[0].startswith("Without an attack mean reaches a loss of")
    assert summary.verdict[1].startswith("Under sign-flip, median: a loss of ")


def test_the_page_of_a_run_without_accuracy_is_written(tmp_path):
    run = f2ed.simulate(**BASE | TASKS["mse"])
    (tmp_path / "r.jsonl").write_bytes(line(run.header) + b"".join(map(line, run.records)))
    write_page([tmp_path], tmp_path / "page.html")
    assert "NaN" not in (tmp_path / "page.html").read_text("utf-8").partition("</script>")[0]


def test_masks_change_nothing():
    for task in TASKS.values():
        (masked, *_), (plain, *_) = (f2ed.simulate(**BASE | task, secure=secure) for secure in (True, False))
        assert masked.loss == plain.loss


def test_cross_entropy_is_the_default_and_changes_no_digest():
    plain = experiment(SMALL)
    assert experiment(SMALL | {"loss": "cross-entropy"}) == plain
    assert experiment(SMALL | {"loss": {"kind": "cross-entropy"}}) == plain
    assert digest(plain) == digest(experiment(SMALL | {"metric": None}))
    assert digest(experiment(SMALL | {"metric": "mae"})) != digest(plain)


def test_a_proximal_term_keeps_updates_small_and_changes_no_digest_where_there_is_none():
    near, free = (f2ed.simulate(SMALL | {"training": {"lr": 0.1} | pull}) for pull in ({"proximal": 9.0}, {}))
    assert near.records[0].step < free.records[0].step
    assert experiment(SMALL | {"training": {"lr": 0.1, "proximal": None}}) == experiment(SMALL)
    settings = free.header.settings["training"]
    assert settings_digest({"training": settings}) == settings_digest(
        {"training": {name: value for name, value in settings.items() if name != "proximal"}}
    )


def test_the_record_holds_the_source_of_a_loss_of_your_own():
    header = f2ed.simulate(**BASE | TASKS["own"]).header
    assert header.settings["loss"]["factory"].endswith("test_tasks:pinball")
    assert header.settings["metric"].endswith("test_tasks:largest")
    assert any(path.endswith("pinball") for path in header.sources)


def focal(outputs, targets):
    return nn.functional.cross_entropy(outputs, targets) * 2


def test_with_classes_a_loss_of_your_own_keeps_accuracy_labels_and_every_attack():
    run = f2ed.simulate(SMALL | {"loss": focal, "attack": "label-flip", "partition": "dirichlet"})
    assert all(record.accuracy is not None for record in run)
    assert run.header.labels is not None


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"loss": "mes"}, r"loss\.kind: there is no 'mes'; did you mean mse\?"),
        ({"loss": nn.HuberLoss()}, "loss: found an instance of HuberLoss; give a function or a class"),
        ({"loss": "cross-entropy"}, "loss: cross-entropy needs one class per sample"),
        ({"loss": "next-token"}, "loss: next-token needs the token after each position"),
        ({"metric": "f1"}, "metric: there is no 'f1'"),
        ({"partition": "dirichlet"}, "partition: it assigns samples by their class, and these have none"),
        ({"attack": "label-flip"}, "attack: label-flip needs a class for every sample"),
        ({"attack": {"kind": "model-replacement", "boost": 2.0}}, "attack: model-replacement needs a class"),
        ({"attack": "model-poisoning"}, "attack: model-poisoning needs a class"),
        ({"model": Letters}, "model: it does not take samples of shape"),
        ({"loss": {"kind": "imported", "factory": "torch:sub"}}, r"loss: torch:sub returned a tensor of shape"),
    ],
)
def test_what_does_not_fit_the_task_is_refused_before_anything_starts(changed, sentence):
    with pytest.raises(ConfigError, match=sentence):
        Simulation(experiment(BASE | TASKS["mse"] | changed))


def test_outputs_that_do_not_fit_the_targets_are_refused():
    wide = {"data": split(X, X[:, :2]), "loss": "mse", "model": {"kind": "imported", "factory": f"{__name__}:Wide"}}
    with pytest.raises(ConfigError, match=r"loss: outputs of shape \(2, 5\) and targets of shape \(2, 2\) do not fit"):
        Simulation(experiment(BASE | wide))


class Wide(nn.Linear):
    def __init__(self):
        super().__init__(6, 5)


def test_runs_that_start_elsewhere_do_not_share_their_first_round(tmp_path):
    run = f2ed.simulate(SMALL)
    save_model(tmp_path / "m.safetensors", run.model())
    cache = FirstRoundCache()
    elsewhere = SMALL | {"start": str(tmp_path / "m.safetensors")}
    alone, _ = next(Simulation(experiment(elsewhere)).rounds())
    next(Simulation(experiment(SMALL), first_rounds=cache).rounds())
    after, _ = next(Simulation(experiment(elsewhere), first_rounds=cache).rounds())
    assert torch.equal(alone.model, after.model)
