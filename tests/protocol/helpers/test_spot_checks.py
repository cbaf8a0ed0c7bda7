"""Spot checks: a server that falls silent when an altered row is to be checked has no second chance like the first."""

import msgspec

from f2ed.protocol.helpers import MIXER, follow_job
from f2ed.protocol.helpers import messages as m
from f2ed.protocol.helpers import requests as ask
from f2ed.protocol.helpers.machine import load
from tests.protocol.helpers import liars
from tests.protocol.helpers.federation import EPOCH, Federation, updates

SIZE, CLIENTS, SPOT = 50, 16, 2


def federation(**changes):
    return Federation(clients=CLIENTS, spot=SPOT, crowd=4, **changes)


class Silent:
    """Drops the mixer's choice of rows if `when` says so of it; counts what the mixer wanted."""

    def __init__(self, when):
        self.when, self.wanted = when, []

    def __call__(self, party, request, reply):
        if party != MIXER or not isinstance(m.decode(tuple(liars.mixer.MACHINE), request), ask.AskShares):
            return reply
        chosen = m.read_reply(m.RowsWanted, reply).clients
        self.wanted.append(chosen)
        return None if self.when(chosen) else reply


def wanted_next(it, round_=1):
    """Return how many rows the mixer wants to check in an honest round."""
    seen = Silent(lambda _: False)
    assert it.run(updates(it.ids, SIZE), terms=it.terms(round_), tamper=seen).mean is not None
    return len(seen.wanted[0])


def test_a_choice_that_is_not_answered_doubles_the_next():
    it = federation()
    silent = Silent(lambda _: True)
    for round_ in range(4):
        it.run(updates(it.ids, SIZE), terms=it.terms(round_), tamper=silent)
    assert [len(chosen) for chosen in silent.wanted] == [2, 4, 8, 16]
    assert wanted_next(it, 4) == CLIENTS  # all of them, and the honest server shows them


def test_rows_that_are_not_shown_count_however_the_round_ends():
    it = federation()

    def garbled(party, request, reply):
        if party == MIXER and isinstance(m.decode(tuple(liars.mixer.MACHINE), request), ask.AskShares):
            it.helper_reply(MIXER, m.write(ask.AskRows(b"garbage")), it.terms())
        return reply

    it.run(updates(it.ids, SIZE), tamper=garbled)
    assert load(it.states[MIXER], it.helper(MIXER)).unshown == 1
    assert wanted_next(it) == 2 * SPOT


def test_a_new_job_does_not_forget_it():
    it = federation()
    it.run(updates(it.ids, SIZE), tamper=Silent(lambda _: True))
    helper = it.helper(MIXER)
    other = type(helper)(**{name: getattr(helper, name) for name in helper.__struct_fields__} | {"job": "other"})
    assert load(follow_job(it.states[MIXER], other), other).unshown == 1


def test_an_epoch_forgives_one():
    it = federation()
    for round_ in range(2):
        it.run(updates(it.ids, SIZE), terms=it.terms(round_), tamper=Silent(lambda _: True))
    assert wanted_next(it, EPOCH) == 2 * SPOT
    assert wanted_next(it, 2 * EPOCH) == SPOT


def test_a_state_from_before_it_was_counted_is_read():
    it = federation()
    it.run(updates(it.ids, SIZE))
    older = msgspec.msgpack.decode(it.states[MIXER])[:-1]
    it.states[MIXER] = msgspec.msgpack.encode(older)
    assert wanted_next(it) == SPOT


def test_honest_rounds_change_nothing():
    it = federation()
    assert [wanted_next(it, round_) for round_ in range(3)] == [SPOT] * 3
