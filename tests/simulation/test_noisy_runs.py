"""Runs with noise: masked equals plain, epsilon is counted per client, and goes on where a run is taken up again."""

import msgspec
import numpy as np
import pytest
import torch

from f2ed.core.errors import ConfigError
from f2ed.protocol.dp import Noise, dp_epsilon
from f2ed.records import RoundRecord, line, settings_digest
from f2ed.simulation import Simulation, experiment
from f2ed.simulation.checkpoint import pack, unpack
from f2ed.simulation.header import digest
from tests.simulation.small_run import SMALL

NOISY = SMALL | {"clip_norm": 0.5, "dp": {"noise_multiplier": 2.0, "delta": 1e-4}}


def run(**changes):
    simulation = Simulation(experiment(NOISY | changes), workers=1)
    states, records = zip(*simulation.rounds(), strict=True)
    return states[-1].model.numpy().tobytes(), records


@pytest.mark.parametrize("mode", ["all-or-nothing", "dropout-tolerant"])
def test_with_noise_masked_equals_plain_to_the_bit(mode):
    changes = {"protocol": {"mode": mode}, "client_dropout": 0.1, "clients": 20}
    masked, records = run(**changes)
    plain, clear = run(secure=False, **changes)
    assert masked == plain
    assert [record.weights for record in records] == [record.weights for record in clear]


def test_noise_repeats_with_the_seed_and_changes_the_run():
    first, _ = run()
    again, _ = run()
    quiet, records = run(dp="none")
    assert first == again != quiet
    assert {record.dp_epsilon for record in records} == {None}


def test_epsilon_composes_over_the_rounds():
    _, records = run()
    assert [record.dp_epsilon for record in records] == [
        pytest.approx(dp_epsilon((k + 1) / (2 * 2.0**2), 1e-4), abs=1e-3) for k in range(3)
    ]
    assert records[-1].max_dp_epsilon == records[-1].dp_epsilon


def test_a_client_pays_only_for_the_rounds_in_which_its_shard_was_opened():
    simulation = Simulation(experiment(NOISY | {"client_dropout": 0.15, "rounds": 6}), workers=1)
    opened = np.zeros(12, int)
    for _, record in simulation.rounds():
        for number, members in enumerate(simulation.header.shards):
            opened[list(members)] += number not in record.excluded
        wanted = [dp_epsilon(float(count) / (2 * 2.0**2), 1e-4) for count in opened]
        recorded = record.dp_epsilon
        spent = [recorded[client] if isinstance(recorded, dict) else recorded for client in range(12)]
        assert spent == pytest.approx(wanted, abs=1e-3)
        assert record.max_dp_epsilon == max(spent)
    assert len(set(opened)) > 1


def test_in_the_clear_epsilon_is_told_for_what_the_server_then_sees():
    _, masked = run()
    _, clear = run(secure=False)
    assert clear[0].dp_epsilon == pytest.approx(dp_epsilon(3 / (2 * 2.0**2), 1e-4), abs=1e-3)
    assert clear[0].dp_epsilon > masked[0].dp_epsilon


def test_colluders_leave_less_noise_to_count_on_so_each_client_adds_more():
    simulation = Simulation(experiment(NOISY | {"protocol": {"colluders": 1}, "clients": 16}), workers=1)
    _, record = next(simulation.rounds())
    assert record.dp_epsilon == pytest.approx(dp_epsilon(1 / (2 * 2.0**2), 1e-4), abs=1e-3)
    assert simulation.header.noise.colluders == 1


def test_a_run_that_is_taken_up_again_goes_on_counting():
    simulation = Simulation(experiment(NOISY | {"client_dropout": 0.15, "rounds": 5}), workers=1)
    states, records = zip(*simulation.rounds(), strict=True)
    kept = unpack(pack(states[2], simulation.digest), simulation.digest, torch.device("cpu"))
    assert kept.ledger == states[2].ledger
    later = Simulation(experiment(NOISY | {"client_dropout": 0.15, "rounds": 5}), workers=1)
    assert [record.dp_epsilon for _, record in later.rounds(kept)] == [record.dp_epsilon for record in records[3:]]


def test_records_hold_one_epsilon_or_one_for_each():
    for spent in (None, 1.25, {0: 0.5, 3: 1.25}):
        record = RoundRecord(round=0, accuracy=0.5, loss=1.0, dp_epsilon=spent)
        assert msgspec.json.decode(line(record), type=RoundRecord).dp_epsilon == spent


def test_a_number_stands_for_the_multiplier():
    assert experiment(NOISY | {"dp": 3}).dp == Noise(noise_multiplier=3.0)
    assert experiment(NOISY | {"dp": "none"}).dp is None


def test_the_digest_leaves_out_the_options_that_are_unset():
    plain = experiment({"data": "digits", "clients": 12, "shards": 4, "rounds": 3})
    settings = {name: value for name, value in msgspec.to_builtins(plain).items() if value is not None}
    assert "attack" not in settings
    assert digest(plain) == settings_digest(settings)
    assert digest(msgspec.structs.replace(plain, attack_from=1)) != digest(plain)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"clip_norm": None}, "dp: noise without an L2 clip"),
        ({"shards": "none"}, "dp: noise is shared by the members of a shard"),
        ({"dp": -1.0}, r"dp\.noise_multiplier"),
        ({"dp": {"noise_multiplier": 1.0, "delta": 1.0}}, r"dp\.delta"),
        ({"dp": {"noise_multiplier": 1.0, "detla": 0.1}}, "did you mean delta"),
        ({"bits": 2, "clip_value": 100.0, "dp": 0.01}, "dp: noise of .* steps"),
        ({"bits": 48, "dp": 1e6}, "dp: noise of .* steps; .* fewer if it is larger"),
    ],
)
def test_noise_that_cannot_work_is_refused_with_the_setting_to_change(changes, why):
    with pytest.raises(ConfigError, match=why):
        Simulation(experiment(NOISY | changes), workers=1)


def test_the_header_says_what_the_noise_is():
    simulation = Simulation(experiment(NOISY), workers=1)
    assert simulation.header.settings["dp"] == {"noise_multiplier": 2.0, "delta": 1e-4}
    assert simulation.header.noise.noise_multiplier == 2.0
    assert simulation.header.noise.shard == pytest.approx(2.0 * 0.5 / 3, rel=0.01)
