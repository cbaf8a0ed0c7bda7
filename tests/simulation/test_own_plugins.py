"""Plug-ins of your own run like those of the registries, and the record says whose code and data they were."""

import sys

import msgspec
import numpy as np
import pytest
from torch import nn

import f2ed
from f2ed.attacks import Attack
from f2ed.core.errors import ConfigError
from f2ed.core.imports import source_digest
from f2ed.estimators import NNM, BoundedEstimator, Estimate, Estimator, Mean
from f2ed.learning.partition import Partitioner
from f2ed.simulation import Simulation, experiment
from f2ed.simulation.header import digest
from f2ed.simulation.own import plain


class Average(Estimator, frozen=True, tag="average"):
    title, family, paper = "Average", "baseline", "Nobody, 2026"

    scale: float = 1.0

    def estimate(self, rows):
        weights = np.full(rows.n, 1 / rows.n)
        return Estimate(rows.combine(weights * self.scale), weights)


class Listed(Average, frozen=True, tag="listed"):
    rows: list[int] = msgspec.field(default_factory=lambda: [1])


class Trim(BoundedEstimator, frozen=True, tag="trim"):
    title, family, paper = "Trim", "coordinate-wise", "Nobody, 2026"

    def estimate(self, rows):
        f = self.tolerated(rows.n)
        return Estimate(rows.fill(lambda block: np.sort(block, axis=0)[f : rows.n - f].mean(axis=0)))


class Push(Attack, frozen=True, tag="push"):
    title, family, paper = "Push", "untargeted", "Nobody, 2026"

    strength: float = 1.0

    def craft(self, scene):
        return -self.strength * scene.own


class Halves(Partitioner, frozen=True, tag="halves"):
    def assign(self, labels, clients, rng):  # noqa: ARG002  a partition may ignore its draws
        return np.array_split(np.arange(len(labels)), clients)


class Net(nn.Module):
    def __init__(self, inputs=64):
        super().__init__()
        self.layers = nn.Sequential(nn.Flatten(), nn.Linear(inputs, 10))

    def forward(self, x):
        return self.layers(x)


SETTINGS = {
    "data": {"kind": "synthetic", "train": 240, "test": 60},
    "clients": 12,
    "malicious": 1,
    "shards": 4,
    "rounds": 2,
    "training": {"lr": 0.1},
}


def models(**changed):
    return [state.model for state, _ in Simulation(experiment(SETTINGS | changed)).rounds()]


def test_a_rule_by_value_gives_the_bits_of_the_shipped_one():
    for mine, theirs in zip(models(estimator=Average()), models(estimator="mean"), strict=True):
        assert mine.equal(theirs)
    assert not models(estimator=Average(scale=0.5))[0].equal(models(estimator="mean")[0])


def test_a_rule_by_import_path_is_the_rule_by_value():
    table = {"kind": "imported", "factory": f"{__name__}:Average", "settings": {"scale": 0.5}}
    assert experiment(SETTINGS | {"estimator": table}).estimator == Average(0.5)
    assert digest(experiment(SETTINGS | {"estimator": table})) == digest(
        experiment(SETTINGS | {"estimator": Average(0.5)})
    )


def test_an_inner_rule_of_your_own_works_inside_a_shipped_wrapper():
    by_value = experiment(SETTINGS | {"estimator": NNM(f=1, inner=Average())})
    table = {"kind": "nnm", "f": 1, "inner": {"kind": "imported", "factory": f"{__name__}:Average"}}
    assert by_value.estimator == experiment(SETTINGS | {"estimator": table}).estimator == NNM(f=1, inner=Average())
    stated = plain(by_value)["estimator"]
    assert stated["inner"] == {
        "kind": "imported",
        "factory": f"{__name__}:Average",
        "settings": {"scale": 1.0},
    }


def test_a_bounded_rule_of_your_own_gets_the_worst_case_like_any_other():
    table = {"kind": "imported", "factory": f"{__name__}:Trim"}
    assert experiment(SETTINGS | {"estimator": table}).estimator == Trim(contamination=0.25)


def test_attacks_partitions_and_models_of_your_own_run():
    records = list(
        f2ed.simulate(**SETTINGS, attack=Push(strength=2.0), partition=Halves(), model=Net, estimator=Trim(f=1))
    )
    assert len(records) == 2
    assert records[0].accuracy is not None


def test_the_record_names_code_and_data():
    header = Simulation(experiment(SETTINGS | {"estimator": Average(), "model": Net})).header
    assert header.settings["estimator"]["factory"] == f"{__name__}:Average"
    assert header.estimator.title == "Average"
    assert header.sources == {f"{__name__}:{name}": source_digest(f"{__name__}:{name}") for name in ("Average", "Net")}
    assert len(header.data_sha256) == 64


def test_arrays_are_data():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(240, 5))
    y = (x[:, 0] > 0).astype(int)
    given = (x[:200], y[:200], x[200:], y[200:])
    records = list(f2ed.simulate(**SETTINGS | {"data": given, "model": "logistic", "rounds": 6}))
    assert records[-1].accuracy > 0.8


def test_other_data_than_the_settings_name_are_recorded_as_what_they_are():
    settings = experiment(SETTINGS)
    named = Simulation(settings)
    other = msgspec.structs.replace(settings.data, seed=7)()
    given = Simulation(settings, data=other)
    assert given.header.settings["data"] == {"kind": "given", "sha256": other.sha256}
    assert given.digest != named.digest
    assert Simulation(settings, data=settings.data.load()).digest == named.digest


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        (
            {"estimator": {"kind": "imported", "factory": "nowhere_at_all:Rule"}},
            "estimator: nowhere_at_all:Rule cannot",
        ),
        ({"estimator": {"kind": "imported", "factory": f"{__name__}:Missing"}}, "has no Missing"),
        ({"estimator": {"kind": "imported", "factory": "Rule"}}, "is not an import path"),
        ({"estimator": {"kind": "imported"}}, "estimator: write"),
        ({"estimator": {"kind": "imported", "factory": f"{__name__}:SETTINGS"}}, "is a dict; a class is needed"),
        ({"estimator": {"kind": "imported", "factory": f"{__name__}:Push"}}, "must derive from f2ed.estimators.base"),
        (
            {"estimator": {"kind": "imported", "factory": f"{__name__}:Average", "scale": 2}},
            "estimator.scale: there is",
        ),
        (
            {"estimator": {"kind": "imported", "factory": f"{__name__}:Average", "settings": {"scale": "x"}}},
            "scale: expected `float`, got `str`",
        ),
        (
            {"estimator": {"kind": "imported", "factory": f"{__name__}:Average", "settings": {"speed": 1}}},
            "speed",
        ),
        ({"attack": {"kind": "imported", "factory": f"{__name__}:Average"}}, "attack: "),
        ({"estimator": Listed()}, "estimator: Listed has a list or a dictionary among its settings; use a tuple"),
        ({"estimator": {"kind": "imported", "factory": f"{__name__}:Listed"}}, "Listed has a list or a dictionary"),
        ({"data": (1, 2)}, "data: found a tuple; give (samples, labels"),
    ],
)
def test_what_cannot_be_used_is_refused_in_one_sentence(changed, sentence):
    with pytest.raises(ConfigError) as refusal:
        experiment(SETTINGS | changed)
    assert sentence in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_a_model_that_does_not_fit_the_data_is_refused_before_the_first_round():
    with pytest.raises(ConfigError, match=r"model: it does not take samples of shape \(1, 8, 8\)"):
        Simulation(
            experiment(
                SETTINGS | {"model": {"kind": "imported", "factory": f"{__name__}:Net", "settings": {"inputs": 5}}}
            )
        )
    with pytest.raises(ConfigError, match=r"two samples gave \(2, 10\); \(2, 4\) is needed"):
        Simulation(experiment(SETTINGS | {"data": {"kind": "synthetic", "classes": 4}, "model": Net}))


def test_an_imported_model_can_be_one_of_a_grid():
    table = {"kind": "imported", "factory": f"{__name__}:Net", "settings": {"inputs": 64}}
    one, two = (experiment(SETTINGS | {"model": table}).model for _ in range(2))
    assert hash(one) == hash(two)


def test_code_that_is_found_nowhere_is_still_named():
    class Hidden(Estimator, frozen=True, tag="hidden"):
        title, family, paper = "Hidden", "baseline", "Nobody, 2026"

        def estimate(self, rows):
            return Mean().estimate(rows)

    stated = plain(experiment(SETTINGS | {"estimator": Hidden()}))["estimator"]
    assert stated["factory"].endswith("Hidden")
    assert experiment(SETTINGS | {"estimator": stated}).estimator == Hidden()


def test_a_package_may_bring_plugins_under_their_names(tmp_path, monkeypatch):
    package = tmp_path / "rules-1.0.dist-info"
    package.mkdir()
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: rules\nVersion: 1.0\n")
    (package / "entry_points.txt").write_text(f"[f2ed.estimator]\nhalf = {__name__}:Average\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    from f2ed.simulation import own

    own._installed.cache_clear()
    try:
        assert experiment(SETTINGS | {"estimator": {"kind": "half", "scale": 0.5}}).estimator == Average(0.5)
        assert experiment(SETTINGS | {"estimator": "half"}).estimator == Average()
    finally:
        own._installed.cache_clear()
