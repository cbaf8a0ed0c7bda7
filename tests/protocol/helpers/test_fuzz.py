"""Bytes of strangers: decoders and state machines raise nothing but what they promise."""

import contextlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from f2ed.core.errors import ConfigError, PeerError
from f2ed.protocol.helpers import JUDGE, MIXER
from f2ed.protocol.helpers import messages as m
from f2ed.protocol.helpers.shares import read_copy, read_share
from f2ed.protocol.helpers.verdict import read_rule
from tests.protocol.helpers.federation import Federation, updates

SIZE = 12


def recorded():
    it = Federation(clients=4, coordinates=SIZE, crowd=3, sketch=9, tests=2)
    log = []

    def note(party, request, reply):
        log.append((party, it.states.get(party), request, reply))
        return reply

    before = {}
    true = it.helper_reply

    def remember(role, request, terms):
        before[role] = it.states[role]
        reply = true(role, request, terms)
        states.append((role, before[role], request))
        return reply

    states = []
    it.helper_reply = remember
    it.run(updates(it.ids, SIZE), tamper=note)
    it.helper_reply = true
    return it, states, log


IT, STATES, LOG = recorded()


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(range(len(STATES))), st.data())
def test_a_helper_answers_any_bytes_with_a_reply_or_a_refusal(place, data):
    role, state, request = STATES[place]
    at = data.draw(st.integers(0, len(request) - 1))
    spoiled = request[:at] + data.draw(st.binary(min_size=0, max_size=4)) + request[at + data.draw(st.integers(0, 4)) :]
    IT.states[role] = state
    reply = IT.helper_reply(role, spoiled, IT.terms())
    with contextlib.suppress(PeerError):
        m.decode((m.Refused,), reply)


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=200))
def test_decoders_raise_peer_errors_alone(data):
    for decode in (
        lambda: m.read_reply(m.Upload, data),
        lambda: m.read_reply(m.Weighed, data),
        lambda: read_share(data, 4, 2),
        lambda: read_copy(data, 9),
    ):
        with contextlib.suppress(PeerError):
            decode()
    with contextlib.suppress(ConfigError):
        read_rule(data)


@settings(max_examples=30, deadline=None)
@given(st.sampled_from(range(len(LOG))), st.data())
def test_the_server_ends_every_round_with_an_outcome(place, data):
    it = Federation(clients=4, coordinates=SIZE, crowd=3, sketch=9, tests=2)
    count = []

    def spoil(_party, _request, reply):
        count.append(reply)
        if len(count) - 1 != place:
            return reply
        at = data.draw(st.integers(0, len(reply) - 1))
        return reply[:at] + data.draw(st.binary(min_size=1, max_size=3)) + reply[at + 1 :]

    numbers = updates(it.ids, SIZE)
    outcome = it.run(numbers, tamper=spoil)
    if outcome.mean is None:
        assert outcome.aborted
    else:
        total = sum(numbers[client] for client in outcome.kept)
        assert np.allclose(outcome.mean, np.rint(total / len(outcome.kept)) / (2**20 - 1))


def test_what_was_recorded_covers_both_helpers():
    assert {role for role, _, _ in STATES} == {MIXER, JUDGE}
    with pytest.raises(PeerError, match="cannot be read"):
        m.read_reply(m.Upload, b"")
