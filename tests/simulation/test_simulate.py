"""A whole run in this process: masked equals plain, seeds repeat, and what is odd is on record."""

from typing import get_args

import msgspec
import numpy as np
import pytest
import torch

from f2ed.attacks import AnyAttack, TrimmedMeanAttack
from f2ed.core.errors import ConfigError
from f2ed.estimators import NNM, AnyEstimator, FilterL2, Krum
from f2ed.learning.saved import save_model
from f2ed.records.text import notes, summary
from f2ed.simulation import Experiment, Simulation, experiment, simulate
from f2ed.simulation.checkpoint import SimulationState, pack, unpack
from tests.simulation.small_run import SMALL


def final(**changes):
    """Run to the end; return the last model's bytes and all records without what differs from machine to machine."""
    simulation = Simulation(experiment(SMALL | changes), workers=1)
    states, records = zip(*simulation.rounds(), strict=True)
    return states[-1].model.numpy().tobytes(), records


def without_costs(record):
    found = msgspec.to_builtins(record)
    for name in ("seconds", "bytes_up", "bytes_down", "crowd"):
        del found[name]
    return found


@pytest.mark.parametrize("attack", ["none", "trimmed-mean-attack", {"kind": "model-replacement", "boost": "shard"}])
@pytest.mark.parametrize("mode", ["all-or-nothing", "dropout-tolerant"])
def test_masked_equals_plain_to_the_bit(attack, mode):
    masked, records = final(attack=attack, protocol={"mode": mode})
    plain, clear = final(attack=attack, protocol={"mode": mode}, secure=False)
    assert masked == plain
    assert [without_costs(record) for record in records] == [without_costs(record) for record in clear]


def test_masked_equals_plain_where_clients_drop_out():
    masked, records = final(client_dropout=0.15, rounds=6)
    plain, clear = final(client_dropout=0.15, rounds=6, secure=False)
    assert masked == plain
    assert any(record.excluded for record in records)
    assert not all(record.excluded for record in records)
    assert [without_costs(record) for record in records] == [without_costs(record) for record in clear]


def test_the_same_seed_gives_the_same_run_and_another_seed_another():
    first, _ = final(attack="trimmed-mean-attack", seed=3)
    again, _ = final(attack="trimmed-mean-attack", seed=3)
    other, _ = final(attack="trimmed-mean-attack", seed=4)
    assert first == again != other


@pytest.mark.parametrize("attack", ["trimmed-mean-attack", {"kind": "model-replacement", "boost": "shard"}])
def test_an_attack_may_begin_in_a_later_round(attack):
    calm = Simulation(experiment(SMALL), workers=1)
    late = Simulation(experiment(SMALL | {"attack": attack, "attack_from": 2}), workers=1)
    honest = [state.model for state, _ in calm.rounds()]
    found = [state.model for state, _ in late.rounds()]
    assert [torch.equal(one, other) for one, other in zip(honest, found, strict=True)] == [True, True, False]


LARGER = SMALL | {
    "data": {"kind": "synthetic", "train": 720, "test": 200, "noise": 0.2},
    "model": {"kind": "mlp", "hidden": [32]},
    "training": {"lr": 0.2, "local_epochs": 3},
    "clients": 24,
    "shards": 8,
    "rounds": 8,
}


def test_a_run_learns():
    *_, last = simulate(**LARGER)
    assert last.accuracy > 0.8
    assert last.success is None
    assert last.contaminated == ()


def test_a_backdoor_opens_under_the_mean_and_not_under_the_filter():
    backdoor = {"kind": "model-replacement", "epochs": 10, "trigger": {"size": 4}}
    *_, fooled = simulate(**(LARGER | {"attack": backdoor, "estimator": "mean"}))
    *_, safe = simulate(**(LARGER | {"attack": backdoor}))
    assert fooled.success > 0.9
    assert safe.success < 0.3
    assert fooled.success_every > fooled.success * 0.9
    assert safe.contaminated_weight < fooled.contaminated_weight


def test_without_shards_the_estimator_sees_every_update_and_the_header_says_so():
    simulation = Simulation(experiment(SMALL | {"shards": "none", "attack": "trimmed-mean-attack"}), workers=1)
    _, record = simulation.step(simulation.start())
    assert simulation.header.mode == "none"
    assert simulation.header.crowd == 1
    assert any("no secure aggregation" in note for note in notes(simulation.header))
    assert len(record.weights) == 12
    assert record.contaminated == simulation.malicious
    assert record.bytes_up == 0


def test_as_many_shards_as_clients_is_the_same_as_none():
    bare, _ = final(shards="none")
    each, _ = final(shards=12)
    assert bare == each


def test_the_header_holds_what_is_needed_to_run_it_again():
    simulation = Simulation(experiment(SMALL), name="mine", arm={"attack": "none"}, workers=1)
    header = simulation.header
    assert msgspec.convert(header.settings, Experiment) == simulation.experiment
    assert header.name == "mine"
    assert sum(header.samples) == 240
    assert [sum(counts) for counts in header.labels] == list(header.samples)
    assert sorted(client for members in header.shards for client in members) == list(range(12))
    assert header.mode == "all-or-nothing"
    assert header.crowd == 3
    assert "50% of 4 rows" in summary(header)
    assert "hidden in a crowd of at least 3" in summary(header)
    assert set(header.versions) == {"f2ed", "python", "numpy", "torch"}


def test_the_record_says_among_how_many_an_update_was_hidden():
    assert [record.crowd for record in final()[1]] == [3, 3, 3]
    assert [record.crowd for record in final(secure=False)[1]] == [1, 1, 1]
    tolerant = {"protocol": {"mode": "dropout-tolerant"}, "clients": 24, "client_dropout": 0.1}
    simulation = Simulation(experiment(SMALL | tolerant), workers=1)
    assert simulation.header.crowd == 4
    assert all(4 <= record.crowd <= 6 for _, record in simulation.rounds())


def test_contamination_is_the_worst_case_unless_it_is_stated():
    assert experiment(SMALL).estimator == FilterL2(contamination=0.25)  # 2 of 4 would be half, so one is tolerated
    assert experiment(SMALL | {"malicious": 1}).estimator == FilterL2(contamination=0.25)
    stated = experiment(SMALL | {"estimator": {"kind": "filter-l2", "contamination": 0.1}}).estimator
    assert stated == FilterL2(contamination=0.1)


def test_contamination_is_at_most_what_the_rule_tolerates():
    settled = experiment(SMALL | {"clients": 45, "shards": 15, "malicious": 7, "estimator": "bulyan"})
    assert settled.estimator.contamination == 3 / 15
    header = Simulation(msgspec.structs.replace(settled, rounds=1), workers=1).header
    assert any("tolerate 3 of 15" in note for note in notes(header))


def test_a_count_is_taken_as_stated_and_checked_against_the_rows():
    table = {"kind": "nnm", "f": 1, "inner": "krum"}
    settled = experiment(SMALL | {"clients": 15, "shards": 5, "malicious": 1, "estimator": table}).estimator
    assert settled == NNM(f=1, inner=Krum(0.2))
    with pytest.raises(ConfigError, match=r"estimator: Krum .* n = 5 and f = 2; the largest that works is f = 1"):
        experiment(SMALL | {"clients": 15, "shards": 5, "estimator": {"kind": "krum", "f": 2}})


def test_inner_rules_get_their_contamination_too():
    table = {"kind": "bucketing", "size": 2, "inner": "trimmed-mean"}
    settled = experiment(SMALL | {"clients": 36, "shards": 12, "malicious": 1, "estimator": table})
    assert settled.estimator.inner.contamination == 1 / 6


def test_an_attack_may_be_named_by_its_abbreviation():
    assert experiment(SMALL | {"attack": "tma"}).attack == TrimmedMeanAttack()
    assert experiment(SMALL | {"attack": {"kind": "tma", "b": 3.0}}).attack == TrimmedMeanAttack(b=3.0)


def test_settings_may_be_values():
    settled = experiment(SMALL | {"attack": TrimmedMeanAttack(), "estimator": FilterL2(contamination=0.2)})
    assert settled.attack == TrimmedMeanAttack()
    assert settled.estimator == FilterL2(contamination=0.2)


@pytest.mark.parametrize("attack", [each for each in get_args(AnyAttack) if each.aliases], ids=str)
def test_an_alias_stands_for_the_kind(attack):
    for alias in attack.aliases:
        assert type(experiment(SMALL | {"attack": alias}).attack) is attack
        assert type(experiment(SMALL | {"attack": {"kind": alias}}).attack) is attack


@pytest.mark.parametrize(
    ("setting", "hint"),
    [
        ({"attack": "trimmed-mean-attac"}, r"attack\.kind: there is no .*; did you mean trimmed-mean-attack\?"),
        ({"attack": "mrra"}, r"did you mean model-replacement \(mra\)\?"),
        ({"estimator": {"kind": "nnm", "inner": "krumm"}}, r"estimator\.inner\.kind: .* did you mean krum\?"),
        ({"attack": "xyzzy"}, r"attack\.kind: there is no 'xyzzy'; choose from krum-attack, "),
        ({"clinets": 3}, r"clinets: there is no such setting; did you mean clients\?"),
    ],
)
def test_an_unknown_name_gets_a_hint_with_the_nearest(setting, hint):
    with pytest.raises(ConfigError, match=hint):
        experiment(SMALL | setting)


def test_a_state_becomes_bytes_and_back_and_the_run_continues_unchanged():
    simulation = Simulation(experiment(SMALL | {"client_momentum": 0.9, "estimator": "centered-clipping"}), workers=1)
    state, _ = simulation.step(simulation.start())
    packed = pack(state, simulation.digest)
    restored = unpack(packed, simulation.digest, simulation.device)
    on, record = simulation.step(state)
    again, same = simulation.step(restored)
    assert torch.equal(on.model, again.model)
    assert on.momentum.averages.keys() == again.momentum.averages.keys()
    assert all(torch.equal(each, again.momentum.averages[who]) for who, each in on.momentum.averages.items())
    assert without_costs(record) == without_costs(same)


def test_a_state_of_other_settings_is_refused():
    packed = pack(SimulationState(0, torch.zeros(3)), "one")
    with pytest.raises(ConfigError, match="other settings"):
        unpack(packed, "another", torch.device("cpu"))
    with pytest.raises(ConfigError, match="not a checkpoint"):
        unpack(packed[:5], "one", torch.device("cpu"))


def test_a_diverged_client_closes_its_shard_and_the_round_goes_on():
    attack = {"kind": "gaussian"}
    simulation = Simulation(experiment(SMALL | {"attack": attack, "malicious": 1}), workers=1)
    send = simulation._adversary.send
    simulation._adversary.send = lambda *given, **named: send(*given, **named) * np.nan
    state, record = simulation.step(simulation.start())
    assert list(record.excluded) == list(record.contaminated)
    assert "NaN" in record.excluded[record.contaminated[0]]
    assert list(record.dropped) == list(simulation.malicious)
    assert "NaN" in record.dropped[simulation.malicious[0]]
    assert torch.isfinite(state.model).all()
    assert record.weights[record.contaminated[0]] == 0


def test_if_no_shard_opens_the_model_stays_as_it_is():
    simulation = Simulation(experiment(SMALL | {"client_dropout": 0.99}), workers=1)
    start = simulation.start()
    state, record = simulation.step(start)
    assert torch.equal(state.model, start.model)
    assert record.skipped == "nothing was opened"
    assert len(record.excluded) == 4
    assert record.step == 0


def test_if_too_few_rows_are_left_for_the_rule_the_model_stays_as_it_is():
    rule = {"kind": "krum", "contamination": 0.25}
    simulation = Simulation(
        experiment(SMALL | {"clients": 15, "shards": 5, "estimator": rule, "client_dropout": 0.3}), workers=1
    )
    assert any(record.skipped for _, record in simulation.rounds())


def test_the_clip_binds_attackers_and_is_counted():
    attack = {"kind": "gaussian"}
    _, records = final(attack=attack, clip_value=0.5)
    assert records[0].clipped > 0
    assert records[0].clipped_honest == 0


def test_clients_are_resharded_when_the_schedule_says():
    simulation = Simulation(
        experiment(SMALL | {"schedule": "every-round", "attack": "trimmed-mean-attack", "rounds": 6}), workers=1
    )
    assert len({record.contaminated for _, record in simulation.rounds()}) > 1
    fixed = Simulation(experiment(SMALL | {"attack": "trimmed-mean-attack", "rounds": 6}), workers=1)
    assert len({record.contaminated for _, record in fixed.rounds()}) == 1


def test_bytes_are_those_of_the_upload_and_little_more():
    simulation = Simulation(experiment(SMALL), workers=1)
    (_, first), (_, second), _ = simulation.rounds()
    payload = 4 * simulation.header.dimension
    assert payload < second.bytes_up < payload + 300
    assert first.bytes_up > second.bytes_up  # the keys of the epoch


def test_simulate_wants_settings_once():
    with pytest.raises(ConfigError, match="one of the two"):
        simulate()
    with pytest.raises(ConfigError, match="one of the two"):
        simulate(experiment(SMALL), clients=3)


@pytest.mark.parametrize("model", ["mlp", {"kind": "cnn", "filters": 2, "hidden": 4}])
def test_the_number_of_workers_changes_nothing(model):
    changes = {"model": model, "attack": {"kind": "model-replacement", "boost": "shard"}, "rounds": 2}
    found = []
    for workers in (1, 3):
        states, records = zip(*Simulation(experiment(SMALL | changes), workers=workers).rounds(), strict=True)
        found.append((states[-1].model.numpy().tobytes(), [without_costs(record) for record in records]))
    assert found[0] == found[1]


INNER = {key: {} for key in ("sections", "nnm", "arc", "median-clipping", "sign-vote", "root-veto")} | {
    "bucketing": {"size": 2},
    "clipping": {"radius": 1.0},
    "hard-weights": {"inner": "filter-l2"},
    "reputation": {"inner": "filter-l2"},
}
"""The estimators that work on top of another, with the settings they need."""


def tags(registry):
    return [str(each.__struct_config__.tag) for each in get_args(registry)]


@pytest.mark.parametrize("kind", tags(AnyEstimator))
@pytest.mark.parametrize("shards", [8, "none"])
def test_every_estimator_can_be_named_and_takes_a_step(kind, shards):
    rule = {"kind": kind} | ({"inner": "trimmed-mean"} | INNER[kind] if kind in INNER else {})
    changes = {"clients": 24, "shards": shards, "malicious": 1, "rounds": 2, "attack": "sign-flip", "estimator": rule}
    changes["root"] = 40
    for record in simulate(**(SMALL | changes)):
        assert record.step > 0
        assert record.skipped is None


@pytest.mark.parametrize("kind", tags(AnyAttack))
@pytest.mark.parametrize("aware", [False, True])
def test_every_attack_can_be_named_and_changes_what_is_sent(kind, aware):
    attack = {"kind": kind, "shard_aware": aware}
    if kind in {"model-replacement", "neurotoxin", "dba"}:
        attack["boost"] = 3.0
    changes = {"clients": 24, "shards": 8, "malicious": 3, "rounds": 1, "estimator": "mean", "seed": 1}
    attacked, _ = final(**changes, attack=attack)
    calm, _ = final(**changes)
    assert attacked != calm


def test_settings_may_come_as_a_dictionary():
    assert [record.accuracy for record in simulate(SMALL)] == [record.accuracy for record in simulate(**SMALL)]


@pytest.mark.parametrize(
    ("given", "options", "sentence"),
    [
        (("demo.toml",), {}, "found a str: for an experiment file use f2ed run"),
        ((SMALL,), {"device": "toaster"}, "there is no device 'toaster'"),
    ],
)
def test_what_cannot_be_simulated_is_refused_in_one_sentence(given, options, sentence):
    with pytest.raises(ConfigError) as refusal:
        simulate(*given, **options)
    assert sentence in str(refusal.value)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_gpu_that_is_not_there_is_refused():
    with pytest.raises(ConfigError, match="torch finds no GPU here; use cpu"):
        simulate(SMALL, device="cuda")


def test_a_run_starts_from_a_saved_model(tmp_path):
    simulation = Simulation(experiment(SMALL | {"rounds": 1}))
    ((state, record),) = simulation.rounds()
    trained = simulation.model(state)
    save_model(tmp_path / "m.safetensors", trained)
    again = Simulation(experiment(SMALL | {"start": str(tmp_path / "m.safetensors")}))
    assert torch.equal(again.start().model, state.model)
    images, labels = again.data.test.images, again.data.test.labels
    assert float((trained(images).argmax(1) == labels).double().mean()) == record.accuracy
    with pytest.raises(ConfigError, match="there is no nowhere"):
        Simulation(experiment(SMALL | {"start": "nowhere.safetensors"}))


def test_the_servers_own_data_veto_updates_that_point_away():
    settings = SMALL | {"attack": {"kind": "sign-flip", "scale": 3.0}, "malicious": 4, "shards": "none", "root": 40}
    run = simulate(settings | {"estimator": {"kind": "root-veto", "inner": "mean"}})
    plain = simulate(settings | {"estimator": "mean"})
    assert run.records[-1].loss < plain.records[-1].loss


@pytest.mark.parametrize(
    ("root", "message"), [(None, "root: Root veto needs a trusted update"), (10**6, "root: found 1000000 samples")]
)
def test_a_veto_without_enough_data_of_the_servers_own_is_refused(root, message):
    with pytest.raises(ConfigError, match=message):
        simulate(SMALL | {"estimator": {"kind": "root-veto", "inner": "mean"}, "root": root})
