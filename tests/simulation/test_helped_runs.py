"""Runs with helpers: the same bits in the clear, attacks on clients, who learns what, and what rounds reveal."""

from itertools import pairwise

import msgspec
import numpy as np
import pytest

from f2ed.core.errors import ConfigError
from f2ed.protocol.helpers import HelpersProtocol
from f2ed.records import findings
from f2ed.records.schema import RunLog
from f2ed.records.text import notes, round_line
from f2ed.report.privacy import _row
from f2ed.simulation import Simulation, experiment, simulate
from f2ed.simulation.checkpoint import pack, unpack
from tests.simulation.small_run import SMALL

HELPED = {name: value for name, value in SMALL.items() if name != "shards"} | {
    "clip_norm": 1.0,
    "protocol": {"kind": "helpers", "size": 2, "sketch": 384, "agreement": "x25519", "spot": 2},
}


def changed(**protocol):
    return HELPED | {"protocol": HELPED["protocol"] | protocol}


def final(settings):
    simulation = Simulation(experiment(settings), workers=1)
    states, records = zip(*simulation.rounds(), strict=True)
    return states[-1].model.numpy().tobytes(), records, simulation


def without_costs(record):
    found = msgspec.to_builtins(record)
    for name in ("seconds", "bytes_up"):
        del found[name]
    return found


def test_updates_that_are_scaled_down_are_counted():
    long, short = (final(HELPED | {"secure": False, "clip_norm": norm, "rounds": 1})[1][0] for norm in (1e-3, 1e3))
    assert long.shortened == HELPED["clients"] - len(long.dropped)
    assert short.shortened == 0


@pytest.mark.parametrize("guard", ["groups", "nested"])
@pytest.mark.parametrize("attack", ["none", "sign-flip"])
def test_shares_equal_plain_to_the_bit(guard, attack):
    settings = changed(guard=guard) | {"attack": attack, "client_dropout": 0.1, "seed": 3}
    secret, records, _ = final(settings)
    plain, clear, _ = final(settings | {"secure": False})
    assert secret == plain
    assert [without_costs(record) for record in records] == [without_costs(record) for record in clear]
    assert any(record.skipped is None for record in records)


def test_a_run_continues_from_its_checkpoint_with_its_survivors():
    settings = changed(guard="nested") | {"rounds": 4, "attack": "sign-flip", "client_dropout": 0.05}
    whole, records, simulation = final(settings)
    state = simulation.start()
    for _ in range(2):
        state, _ = simulation.step(state)
    fresh = Simulation(experiment(settings), workers=1)
    state = unpack(pack(state, fresh.digest), fresh.digest, fresh.device)
    again = [record for _, record in fresh.rounds(state)]
    assert [without_costs(one) for one in again] == [without_costs(one) for one in records[2:]]
    assert whole


def test_attacks_aim_at_clients_and_weights_are_zero_or_one():
    _, records, simulation = final(HELPED | {"attack": {"kind": "gaussian", "std": 50.0}, "malicious": 1})
    assert len(simulation.header.shards) == 12
    for record in records:
        assert record.contaminated == simulation.malicious
        assert len({weight for weight in record.weights if weight}) == 1
        assert record.crowd == np.count_nonzero(record.weights)
        assert record.contaminated_weight == 0


def test_the_record_says_who_learns_what():
    _, records, simulation = final(HELPED)
    header = simulation.header
    assert (header.mode, header.crowd, header.guarantee["shards"]) == ("helpers", 3, 12)
    text = " ".join(notes(header))
    assert "the judge learns the distances between all updates, by name" in text
    assert "any two of the three together see every update" in text
    assert "whole groups of at least 2 clients" in text
    assert records[0].bytes_up > 8 * header.dimension
    assert "12 of 12 clients compared, 12 in the sum" in round_line(
        msgspec.structs.replace(records[0], crowd=12, excluded={}), header
    )
    found = [each.sentence for each in findings.privacy([RunLog(header, records)])]
    assert any("hidden in a crowd of at least" in each for each in found)
    assert any("any two of the three together" in each for each in found)
    assert "updates" in findings.guarantee([RunLog(header, records)], []).text


def test_in_the_clear_it_says_what_helpers_would_learn():
    simulation = Simulation(experiment(HELPED | {"secure": False, "protocol": {"kind": "helpers", "guard": "nested"}}))
    assert simulation.header.mode == "clear"
    assert simulation.header.crowd == 1
    text = " ".join(notes(simulation.header))
    assert "the judge would learn, with secure = true, the distances" in text
    assert "over several epochs they may determine single clients" in text


def test_the_report_names_the_guard():
    _, records, simulation = final(HELPED)

    class Recorded:
        header, rounds, crowd = simulation.header, records, 5

    row = _row(Recorded)
    assert row[0] == "helpers: no two of server, mixer and judge may collude"
    assert "whole groups of at least 2" in row


def test_the_leak_meter_counts_survivors_over_rounds():
    _, records, _ = final(HELPED | {"rounds": 5, "client_dropout": 0.15, "seed": 2})
    last = records[-1].leak
    assert last.rank >= 2
    assert last.exposed == 0
    assert last.crowd >= 2  # whole groups of 2, for ever


def test_nested_survivors_never_come_back_within_an_epoch():
    _, records, _ = final(changed(guard="nested", epoch=3) | {"rounds": 6, "client_dropout": 0.15, "seed": 2})
    kept = [{i for i, weight in enumerate(record.weights) if weight} for record in records if record.weights]
    assert kept[1] <= kept[0]
    assert all(len(one - other) != 1 for one, other in pairwise(kept[:3]))


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        (HELPED | {"shards": 4}, "shards: found 4, but with helpers every client is a row of its own"),
        (HELPED | {"clip_norm": None}, "clip_norm: the range tests of helpers need it"),
        (HELPED | {"dp": 1.0}, "dp: "),
        (HELPED | {"clients_per_round": 6}, "clients_per_round: with helpers everyone is asked"),
        (HELPED | {"estimator": "krum"}, "estimator: Krum gives all its weight to one client"),
        (HELPED | {"estimator": "median"}, "estimator: Median needs the coordinates"),
        (HELPED | {"client_weights": "samples"}, "client_weights: with helpers a client is in the sum or not"),
        (changed(size=13), "protocol: groups of 13 from 12 clients"),
        (changed(crowd=13), "protocol: a crowd of 13 among 12 members"),
        (changed(crowd=2), "protocol.crowd: "),
        (changed(size=1), "protocol.size: "),
        (changed(relay="half"), "protocol.relay: "),
        (changed(colour="red"), "protocol.colour: there is no such setting"),
        (HELPED | {"protocol": {"kind": "elves"}}, "protocol.kind: there is no 'elves'"),
    ],
)
def test_settings_that_cannot_work_are_refused_by_name(settings, why):
    with pytest.raises(ConfigError) as error:
        Simulation(experiment(settings))
    assert str(error.value).startswith(why)


def test_the_kind_shards_is_the_protocol_without_helpers():
    assert experiment(SMALL | {"protocol": {"kind": "shards", "colluders": 1}}).protocol.colluders == 1
    assert experiment(SMALL | {"protocol": "shards"}).helpers is None


def test_keywords_take_names_tables_and_structs():
    stated = {name: value for name, value in HELPED.items() if name != "protocol"}
    assert simulate(**stated, protocol="helpers").header.mode == "helpers"
    made = experiment(stated | {"protocol": HelpersProtocol(guard="nested")})
    assert made.helpers.guard == "nested"
    assert experiment(stated | {"helpers": {"size": 3}}).helpers.size == 3


def test_a_diverged_update_costs_its_client_alone():
    simulation = Simulation(experiment(HELPED), workers=1)
    state = simulation.start()
    true = simulation._local_updates

    def diverged(*given):
        updates, momentum = true(*given)
        updates = updates.clone()
        updates[3] = float("nan")
        return updates, momentum

    simulation._local_updates = diverged
    _, record = simulation.step(state)
    assert "NaN" in record.dropped[3]
    assert record.skipped is None
    assert record.weights[2] == record.weights[3] == 0  # its group goes with it


@pytest.mark.parametrize(("size", "rule"), [(2, "resilience"), (4, "filter-l2")])
def test_a_run_that_names_no_rule_has_the_recommended_one(size, rule):
    stated = changed(size=size) | {"malicious": 1, "attack": "sign-flip"}
    stated.pop("estimator", None)
    found = experiment(stated).estimator
    assert (type(found).__struct_config__.tag, found.contamination) == (rule, 1 / 12)
    assert type(experiment(stated | {"estimator": "filter-l2"}).estimator).__struct_config__.tag == "filter-l2"
