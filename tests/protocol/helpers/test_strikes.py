"""Strikes: who is out of range is named and left out for the epoch, also where no sum can be opened."""

import numpy as np
import pytest

from f2ed.protocol.helpers import JUDGE, MIXER, mixer, plain_mean
from f2ed.protocol.helpers import messages as m
from f2ed.protocol.helpers import requests as ask
from f2ed.protocol.helpers.machine import load
from f2ed.protocol.helpers.texts import weighed_text
from f2ed.protocol.primitives.crypto import sign
from tests.protocol.helpers.federation import EPOCH, Federation, updates

SIZE = 50
LONG = (0, 4, 8)


def crowded(**changes):
    """Ten clients of whom eight must be in the sum, so that three that are too long prevent it."""
    return Federation(crowd=8, **changes)


def struck_by(it):
    return {role: load(it.states[role], it.helper(role)).struck for role in (MIXER, JUDGE)}


def test_too_many_long_updates_end_a_round_and_are_named_and_struck():
    it = crowded()
    numbers = updates(it.ids, SIZE, long=LONG)
    outcome = it.run(numbers)
    assert outcome.mean is None
    assert outcome.struck == LONG
    assert "7 of 10 clients are in range; the policy demands 8; strikes for clients 0, 4, 8" in outcome.aborted
    assert struck_by(it) == {MIXER: LONG, JUDGE: LONG}
    clear = plain_mean(it.terms(), numbers, halves=it.halves(it.terms()))
    assert (clear.aborted, clear.struck, clear.kept) == (outcome.aborted, outcome.struck, outcome.kept)


def test_groups_that_long_updates_tear_end_a_round_and_are_named():
    it = Federation(crowd=6, step=0, groups=tuple((i, i + 1) for i in range(0, 10, 2)))
    outcome = it.run(updates(it.ids, SIZE, long=LONG))
    assert "a sum of 4 clients; the policy demands a crowd of 6" in outcome.aborted
    assert outcome.struck == LONG
    again = it.run(updates(it.ids, SIZE), terms=it.terms(round_=1))
    assert all(again.dropped[client] == "strike: out for this epoch" for client in LONG)


def test_survivors_of_earlier_rounds_outlast_a_round_without_a_sum():
    it = crowded()
    kept = it.run(updates(it.ids, SIZE)).kept
    it.run(updates(it.ids, SIZE, long=LONG), terms=it.terms(round_=1))
    assert all(load(it.states[role], it.helper(role)).kept == kept for role in (MIXER, JUDGE))
    assert it.before == kept


def test_nothing_follows_a_round_without_a_sum():
    it = crowded()
    terms = it.terms()
    it.run(updates(it.ids, SIZE, long=LONG), terms=terms)
    for role, request in ((MIXER, ask.AskShown((3,), b"")), (JUDGE, ask.AskBlame((3,), b"", b"", bytes(64)))):
        reply = m.decode((m.Refused,), it.helper_reply(role, m.write(request), terms))
        assert "out of order" in reply.reason
    state = load(it.states[MIXER], it.helper(MIXER)).round
    assert (state.seed, state.accepted) == (b"", ())


def test_a_judge_that_keeps_nobody_without_a_strike_is_named():
    it = Federation()

    def empty(party, _, reply):
        found = (
            m.decode((m.Weighed, m.Combined, m.Opening, m.Vote, m.SignedSet, m.Revealed), reply)
            if party == JUDGE
            else None
        )
        if not isinstance(found, m.Weighed):
            return reply
        now = load(it.states[JUDGE], it.helper(JUDGE)).round
        bare = m.Weighed((), (), found.mask, None, 0, "", bytes(64))
        signature = sign(it.party_keys[JUDGE], weighed_text(now.context, now.clients, bare))
        return m.write(m.Weighed((), (), found.mask, None, 0, "", signature))

    outcome = it.run(updates(it.ids, SIZE), tamper=empty)
    assert "the judge keeps nobody and gives no strike" in outcome.aborted


def test_strikes_of_an_earlier_epoch_are_not_given_again():
    it = crowded()
    it.run(updates(it.ids, SIZE, long=LONG))
    old = next(message for party, message in reversed(it.log) if party == MIXER)
    assert isinstance(m.decode((ask.AskMask,), old), ask.AskMask)
    true = it.helper_reply

    def replayed(role, request, terms):
        asks_mask = role == MIXER and isinstance(m.decode(tuple(mixer.MACHINE), request), ask.AskMask)
        return true(role, old if asks_mask else request, terms)

    it.helper_reply, it.struck = replayed, ()
    outcome = it.run(updates(it.ids, SIZE), terms=it.terms(round_=EPOCH))
    assert "the decision of the judge comes with" in outcome.aborted
    assert struck_by(it) == {MIXER: (), JUDGE: ()}


def test_a_client_that_was_given_another_model_is_in_no_set():
    """A server that gives one client a model of its own would read that client's update out of the sum."""
    it = Federation()
    true = it.client_reply

    def fooled(i, request, numbers):
        with pytest.MonkeyPatch.context() as patch:
            if i == 4:
                patch.setattr("tests.protocol.helpers.federation.MODEL", bytes(32))
            return true(i, request, numbers)

    it.client_reply = fooled
    outcome = it.run(updates(it.ids, SIZE))
    assert 4 in outcome.dropped
    assert 4 not in outcome.clients
    assert outcome.mean is not None


def test_blame_in_the_clear_names_the_same_client():
    it = Federation(rule=b'{"kind":"mean"}')
    numbers = updates(it.ids, SIZE)
    numbers[7] = numbers[7] + 2**40 * (np.arange(SIZE) == 3)
    with pytest.MonkeyPatch.context() as patch:  # as if the tests had missed it
        patch.setattr("f2ed.protocol.helpers.verdict.out_of_range", lambda *_: np.zeros(10, bool))
        patch.setattr("f2ed.protocol.helpers.verdict._check_gram", lambda _: None)
        outcome = it.run(numbers)
        clear = plain_mean(it.terms(), numbers, halves=it.halves(it.terms()))
    assert clear.struck == outcome.struck == (7,)
    assert clear.aborted == outcome.aborted
    assert clear.kept == outcome.kept
