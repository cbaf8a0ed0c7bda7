"""A round from shares is the round in the clear, to the bit; clients that misbehave lose their own update alone."""

import msgspec
import numpy as np
import pytest

from f2ed.estimators import MDA, NNM, SMEA, FilterL2, GeometricMedian, Mean, MultiKrum, NoRegret
from f2ed.protocol.helpers import JUDGE, plain_mean, rule_bytes
from f2ed.protocol.helpers import messages as m
from f2ed.protocol.helpers.envelope import _signed
from f2ed.protocol.helpers.field import P, unpack
from f2ed.protocol.helpers.judge import MACHINE
from f2ed.protocol.helpers.keys import joint_seed
from f2ed.protocol.helpers.machine import load
from f2ed.protocol.helpers.plain import plain_gram
from f2ed.protocol.helpers.requests import AskGram
from f2ed.protocol.primitives.crypto import seal
from tests.protocol.helpers.federation import Federation, updates

SIZE = 50


def exact_mean(numbers, kept, clip=1.0):
    total = sum(numbers[i].astype(object) for i in kept)
    return (np.rint(total.astype(np.float64) / len(kept)) * (clip / (2**20 - 1))).astype(np.float32)


@pytest.mark.parametrize("agreement", ["x25519", "x25519+mlkem768"])
@pytest.mark.parametrize("relay", ["sketch", "full"])
def test_shares_give_the_mean_of_the_clear_to_the_bit(agreement, relay):
    it = Federation(relay=relay, agreement=agreement)
    numbers, terms = updates(it.ids, SIZE), it.terms()
    outcome = it.run(numbers, terms=terms)
    clear = plain_mean(terms, numbers, halves=it.halves(terms))
    assert outcome.aborted is None
    assert (outcome.kept, outcome.eigenvalue) == (clear.kept, clear.eigenvalue)
    assert (outcome.mean == clear.mean).all()
    assert (outcome.mean == exact_mean(numbers, outcome.kept)).all()


def test_the_gram_matrix_from_shares_is_the_plain_one():
    it = Federation(clients=7, coordinates=300)
    numbers, terms, seen = updates(it.ids, 300), it.terms(), []

    def look(party, request, reply):
        if party == JUDGE and isinstance(m.decode(tuple(MACHINE), request), AskGram):
            seen.append(load(it.states[JUDGE], it.helper(JUDGE)).round.matrix)
        return reply

    it.run(numbers, terms=terms, tamper=look)
    opened = unpack(seen[0], 8, 8)
    plain = plain_gram(terms, list(numbers.values()), joint_seed(*it.halves(terms)))
    upper = np.triu_indices(7)
    assert (opened[1:, 1:][upper] == plain[upper]).all()
    assert not (opened[0] == 0).any()  # row 0 stays masked


@pytest.mark.parametrize(
    "rule",
    [
        FilterL2(f=1),
        NoRegret(f=1),
        GeometricMedian(),
        MDA(f=1),
        SMEA(f=1),
        MultiKrum(f=1),
        NNM(f=1, inner=FilterL2(f=1)),
        Mean(),
    ],
    ids=lambda rule: type(rule).__name__,
)
def test_every_gram_rule_runs_unchanged(rule):
    it = Federation(rule=rule_bytes(rule))
    numbers, terms = updates(it.ids, SIZE), it.terms()
    outcome, clear = it.run(numbers, terms=terms), plain_mean(terms, numbers, halves=it.halves(terms))
    assert outcome.aborted is None
    assert (outcome.mean == clear.mean).all()


def test_a_malicious_update_within_the_clip_is_left_to_the_rule():
    it = Federation(clients=20, rule=rule_bytes(FilterL2(f=2)))
    numbers = updates(it.ids, SIZE)
    numbers[3] = -2 * numbers[3]
    outcome = it.run(numbers)
    assert outcome.struck == ()
    assert 3 not in outcome.kept


def test_silent_clients_cost_their_own_update_alone():
    it = Federation()
    numbers = updates(it.ids, SIZE)
    del numbers[2], numbers[5]
    outcome = it.run(numbers)
    assert outcome.clients == (0, 1, 3, 4, 6, 7, 8, 9)
    assert outcome.dropped == {2: "upload: no reply", 5: "upload: no reply"}
    assert (outcome.mean == exact_mean(numbers, outcome.kept)).all()


@pytest.mark.parametrize(
    "row",
    [
        pytest.param(lambda row: row * 40, id="forty times too long"),
        pytest.param(lambda row: row + P // 2 * (np.arange(SIZE) < 2), id="half of p twice"),
        pytest.param(lambda row: 0 * row + P // 2, id="half of p everywhere"),
        pytest.param(lambda row: row + 2**40, id="beyond the range"),
    ],
)
def test_an_overflowing_client_gets_a_strike_and_the_round_goes_on(row):
    it = Federation()
    numbers = updates(it.ids, SIZE)
    numbers[4] = row(numbers[4]).astype(np.int64)
    outcome = it.run(numbers)
    assert outcome.struck == (4,)
    assert 4 not in outcome.kept
    assert (outcome.mean == exact_mean(numbers, outcome.kept)).all()


def test_a_strike_lasts_for_the_epoch_in_all_three_parties():
    it = Federation()
    numbers = updates(it.ids, SIZE)
    it.run(numbers | {4: numbers[4] * 40})
    assert 4 in load(it.states["mixer"], it.helper("mixer")).struck
    outcome = it.run(numbers, terms=it.terms(round_=1))
    assert outcome.dropped[4] == "strike: out for this epoch"
    it.struck = ()  # A server that forgets it meets helpers that do not.
    outcome = it.run(numbers, terms=it.terms(round_=2))
    assert outcome.dropped[4] == "judge: it has a strike in this epoch"
    outcome = it.run(numbers, terms=it.terms(round_=10))
    assert 4 in outcome.clients


def test_garbage_uploads_are_dropped_by_name():
    it = Federation()

    def garble(party, _, reply):
        return b"garbage" if party == 1 else reply[:-9] + bytes(9) if party == 2 else reply

    outcome = it.run(updates(it.ids, SIZE), tamper=garble)
    assert "cannot be read" in outcome.dropped[1]
    assert "does not open" in outcome.dropped[2]
    assert outcome.mean is not None


def test_a_client_with_two_seeds_is_accused_by_the_helper_that_got_the_other():
    """It seals another seed to the mixer than to the judge, in an envelope that opens for all three."""
    it = Federation()
    true, sealed = it.client_reply, []

    def other_for_the_mixer(key, plain, *, associated):
        sealed.append(plain)
        return seal(key, bytes(32) if len(sealed) == 2 else plain, associated=associated)

    def two_seeds(i, request, numbers):
        with pytest.MonkeyPatch.context() as patch:
            if i == 6:
                patch.setattr("f2ed.protocol.helpers.envelope.seal", other_for_the_mixer)
            return true(i, request, numbers)

    it.client_reply = two_seeds
    outcome = it.run(updates(it.ids, SIZE))
    assert "is not the one that it committed to" in outcome.dropped[6]
    assert {role: [each.client for each in found] for role, found in outcome.accused.items()} == {
        "mixer": [6],
        "judge": [],
    }
    assert outcome.mean is not None


def test_a_seed_that_is_not_the_committed_one_is_named():
    it = Federation()

    def lie(party, _, reply):
        if party != 6:
            return reply
        upload = m.read_reply(m.Upload, reply)
        changed = msgspec.structs.replace(upload.envelope, mixer_commitment=bytes(32))
        return m.write(m.Upload(_signed(changed, it.client_keys[6]), upload.row))

    outcome = it.run(updates(it.ids, SIZE), tamper=lie)
    assert "is not the one that it committed to" in outcome.dropped[6]
    assert {role: len(found) for role, found in outcome.accused.items()} == {"mixer": 1, "judge": 1}


def test_too_few_clients_open_nothing():
    it = Federation(crowd=8)
    numbers = {i: row for i, row in updates(it.ids, SIZE).items() if i < 7}
    outcome = it.run(numbers)
    assert outcome.mean is None
    assert outcome.aborted == "7 clients uploaded; the policy demands a crowd of 8"
    assert [party for party, _ in it.log if isinstance(party, str)] == ["mixer", "judge"]  # openings alone


def test_a_rule_that_keeps_fewer_than_the_crowd_opens_nothing():
    it = Federation(rule=rule_bytes(MultiKrum(f=2)), crowd=10)
    outcome = it.run(updates(it.ids, SIZE))
    assert outcome.mean is None
    assert "the policy demands a crowd of 10" in outcome.aborted


def test_the_mean_has_no_digits_finer_than_a_step():
    it = Federation(rule=rule_bytes(Mean()))
    outcome = it.run(updates(it.ids, SIZE))
    steps = outcome.mean.astype(np.float64) * (2**20 - 1)
    assert np.allclose(steps, np.rint(steps), atol=0.02)
