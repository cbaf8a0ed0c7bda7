"""Random rounds with bad clients and one lying party: no wrong sum is accepted, and every abort says why."""

from contextlib import ExitStack

import numpy as np
import pytest

from f2ed.protocol.helpers import JUDGE, MIXER
from f2ed.protocol.helpers.field import P
from tests.protocol.helpers import liars
from tests.protocol.helpers.federation import Federation, updates
from tests.protocol.helpers.test_round import exact_mean

LIES = {
    "none": None,
    "server share": liars.server_share,
    "server tests": liars.server_tests,
    "server combination": liars.server_combination,
    "server mask": liars.server_mask,
    "server sketches": liars.server_sketches,
    "mixer share": liars.mixer_share,
    "mixer tests": liars.mixer_tests,
    "mixer combination": liars.mixer_combination,
    "mixer mask": liars.mixer_mask,
    "mixer sum": liars.mixer_sum,
    "mixer half": lambda: liars.helper_reveals(MIXER),
    "mixer accuses": lambda: liars.helper_accuses(MIXER, 3),
    "judge hash": liars.judge_hash,
    "judge half": lambda: liars.helper_reveals(JUDGE),
    "judge accuses": lambda: liars.helper_accuses(JUDGE, 9),
    "judge drops one": lambda: liars.judge_keeps(lambda kept: kept[1:]),
    "judge keeps few": lambda: liars.judge_keeps(lambda kept: kept[:2]),
    "judge keeps strangers": lambda: liars.judge_keeps(lambda kept: (*kept, 4000)),
    "judge keeps twice": lambda: liars.judge_keeps(lambda kept: (*kept, *kept[-1:])),
    "judge shuffles": lambda: liars.judge_keeps(lambda kept: kept[::-1]),
}
HARMLESS = {"none", "mixer accuses", "server sketches"}


def bad_row(kind, row, rng):
    if kind == "long":
        return row * int(rng.integers(8, 1000))
    if kind == "overflow":
        where = rng.random(len(row)) < rng.choice([0.02, 0.5, 1])
        where[rng.integers(len(row))] = True
        return row + int(rng.choice([2**31, 2**40, P // 2, P // 3])) * where
    return rng.integers(-(P // 2), P // 2, len(row))


def play(seed):
    """Play two rounds; the second one meets the survivors and strikes of the first."""
    rng = np.random.default_rng(seed)
    clients, size = int(rng.integers(8, 14)), int(rng.integers(20, 400))
    fixed = {"step": 0, "groups": (tuple(range(4)), tuple(range(4, clients)))} if rng.random() < 0.3 else {}
    relay = str(rng.choice(["sketch", "full"]))
    it = Federation(clients, size, seed=seed, crowd=4, relay=relay, **fixed)
    name = str(rng.choice(list(LIES)))
    for round_ in range(2):
        numbers = updates(it.ids, size, seed=seed * 2 + round_)
        faults = {}
        for client in rng.choice(clients, int(rng.integers(0, 4)), replace=False).tolist():
            faults[client] = str(rng.choice(["long", "overflow", "garbage row", "silent", "garbage"]))
        sent = {
            client: bad_row(faults[client], row, rng).astype(np.int64)
            if faults.get(client) in {"long", "overflow", "garbage row"}
            else row
            for client, row in numbers.items()
            if faults.get(client) != "silent"
        }
        before, struck = it.before, it.struck
        with ExitStack() as stack:
            if LIES[name] is not None:
                stack.enter_context(LIES[name]())
            outcome = it.run(
                sent,
                terms=it.terms(round_),
                tamper=lambda party, _, reply, faults=faults: (
                    rng.bytes(200) if faults.get(party) == "garbage" else reply
                ),
            )
        check(it, name, outcome, sent, faults, before, struck)


def check(it, name, outcome, sent, faults, before, struck):
    too_long = {client for client, kind in faults.items() if kind in {"long", "overflow", "garbage row"}}
    if outcome.mean is None:
        assert outcome.aborted
        if name in HARMLESS:
            whys = ("not that of its masked row", "the policy demands a crowd", "in range", "the rule cannot use")
            assert any(why in outcome.aborted for why in whys), outcome.aborted
        if name == "none":
            assert set(outcome.struck) <= too_long
            assert bool(outcome.struck) == ("keeps nobody" in outcome.aborted)
        return
    kept = outcome.kept
    assert name in HARMLESS or name.startswith("judge") or name == "mixer accuses"
    assert (outcome.mean == exact_mean(sent, kept)).all()
    assert len(kept) >= 4
    assert not too_long & set(kept), (name, faults, kept)
    assert not {client for client, kind in faults.items() if kind in {"silent", "garbage"}} & set(kept)
    assert not set(struck) & set(kept)
    groups = it.terms().groups
    assert all(set(group) <= set(kept) or not set(group) & set(kept) for group in groups)
    if not groups and before is not None:
        assert set(kept) <= set(before)
        assert len(before) - len(kept) != 1


@pytest.mark.parametrize("seed", range(12))
def test_a_random_round_is_right_or_named(seed):
    play(seed)


@pytest.mark.nightly
def test_a_thousand_random_rounds_are_right_or_named():
    for seed in range(1000, 1500):
        play(seed)
