"""Helpers that crash, repeat themselves, lose their state or come back from a backup."""

import pytest

from f2ed.core.errors import ConfigError
from f2ed.protocol.helpers import JUDGE, MIXER, Helper, begin_job
from f2ed.protocol.helpers import messages as m
from f2ed.protocol.helpers import requests as ask
from f2ed.protocol.helpers.machine import load
from tests.protocol.helpers.federation import POLICY, RESPOND, Federation, updates

SIZE = 30


def small(**changes):
    return Federation(clients=6, coordinates=SIZE, **({"crowd": 4, "sketch": 96, "tests": 8} | changes))


def steps(role):
    it = small()
    it.run(updates(it.ids, SIZE))
    return sum(party == role for party, _ in it.log)


@pytest.mark.parametrize("long", [1 << 16, 64])
@pytest.mark.parametrize("role", [MIXER, JUDGE])
def test_a_repeated_request_gets_the_same_bytes(monkeypatch, role, long):
    """A reply that was lost on the way is given again, at every step, and nothing else changes.

    Long requests are known by their end; rows come in several requests, of which the last is shorter.
    """
    monkeypatch.setattr("f2ed.protocol.helpers.machine._LONG", long)
    monkeypatch.setattr("f2ed.protocol.helpers.server._BATCH_BYTES", 4 * 8 * SIZE)
    it = small(relay="full")

    def twice(party, request, reply):
        if party == role:
            state = it.states[role]
            assert it.helper_reply(role, request, it.terms()) == reply
            assert it.states[role] == state
        return reply

    assert it.run(updates(it.ids, SIZE), tamper=twice).mean is not None


@pytest.mark.parametrize("role", [MIXER, JUDGE])
@pytest.mark.parametrize("step", range(7))
def test_a_crash_before_the_state_is_stored_is_harmless_and_after_it_too(role, step):
    """Before: the step is taken again, with other randomness. After: the stored reply is given."""
    it, count = small(), []

    def crash(party, request, reply):
        if party != role:
            return reply
        count.append(party)
        if len(count) - 1 != step:
            return reply
        it.states[role] = before[0]
        return it.helper_reply(role, request, it.terms())

    before = [b""]
    true = it.helper_reply

    def remembering(party, request, terms):
        if party == role:
            before[0] = it.states[role]
        return true(party, request, terms)

    it.helper_reply = remembering
    outcome = it.run(updates(it.ids, SIZE), tamper=crash)
    assert outcome.mean is not None, outcome.aborted


@pytest.mark.parametrize("role", [MIXER, JUDGE])
def test_a_helper_without_its_state_refuses_the_job(role):
    it = small()
    it.states[role] = b""
    outcome = it.run(updates(it.ids, SIZE))
    assert f"the {role} gave no opening" in outcome.aborted
    assert "without it a sum could be answered twice" in outcome.aborted


@pytest.mark.parametrize("role", [MIXER, JUDGE])
def test_a_helper_restored_from_a_backup_is_found_out_by_the_other(role):
    it = small()
    numbers = updates(it.ids, SIZE)
    it.run(numbers)
    backup = it.states[role]
    it.run(numbers, terms=it.terms(round_=1))
    it.states[role] = backup
    outcome = it.run(numbers, terms=it.terms(round_=2))
    assert outcome.mean is None
    assert "the state is an old copy" in outcome.aborted
    again = it.run(numbers, terms=it.terms(round_=3))
    assert f"the {role} gave no opening: it refused: the memory of this {role} is an old copy" in again.aborted
    assert load(it.states[role], it.helper(role)).round is None


@pytest.mark.parametrize("role", [MIXER, JUDGE])
def test_a_helper_that_is_silent_at_any_step_ends_the_round_by_name(role):
    for step in range(steps(role)):
        it, count = small(), []

        def silent(party, _, reply, count=count, step=step):
            if party != role:
                return reply
            count.append(party)
            return None if len(count) - 1 == step else reply

        outcome = it.run(updates(it.ids, SIZE), tamper=silent)
        assert outcome.mean is None
        assert outcome.aborted.startswith(f"the {role} gave no ")
        assert outcome.aborted.endswith("no reply")


def test_steps_out_of_order_are_refused_and_leave_the_round_alone():
    it = small()
    terms = it.terms()
    reply = it.helper_reply(MIXER, m.write(ask.AskSet((0, 1, 2, 3))), terms)
    assert "without a round" in m.decode((m.Refused,), reply).reason
    it.helper_reply(MIXER, m.write(ask.AskOpening(terms, bytes(32))), terms)
    state = it.states[MIXER]
    reply = m.decode((m.Refused,), it.helper_reply(MIXER, m.write(ask.AskSet((0, 1, 2, 3))), terms))
    assert "out of order" in reply.reason
    assert not reply.spent
    assert it.states[MIXER] == state
    it.helper_reply(MIXER, b"garbage", terms)
    assert it.states[MIXER] == state


def test_content_that_is_wrong_spends_the_round():
    it = small()
    terms = it.terms()
    it.helper_reply(MIXER, m.write(ask.AskOpening(terms, bytes(32))), terms)
    opening = m.Opening(bytes(range(32)), b"", b"", (), bytes(64))
    reply = it.helper_reply(MIXER, m.write(ask.AskVote((opening,) * 3, ())), terms)
    assert m.decode((m.Refused,), reply).spent
    reply = it.helper_reply(MIXER, m.write(ask.AskSet((0, 1, 2, 3))), terms)
    assert "without a round" in m.decode((m.Refused,), reply).reason


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"job": "other"}, "under another policy or job"),
        ({"policy": bytes(32)}, "under another policy or job"),
        ({"crowd": 7}, "a crowd of 7 among 6 members"),
        ({"crowd": 4, "colluders": 3}, "hides a client among fewer than two"),
        ({"step": 1}, "open that client; use a step of 2 or more"),
        ({"step": 0}, "either fixed groups or the step"),
        ({"step": 0, "groups": ((0, 1, 2), (3, 4))}, "are not exactly the members"),
        ({"step": 0, "groups": ((3, 4, 5), (0, 1, 2))}, "in ascending order"),
        ({"members": (0, 1, 1, 2, 3, 4)}, "in ascending order"),
        ({"spot": 0}, "sketches without spot checks"),
        ({"operators": ("A", "B", "A")}, "three different operators"),
    ],
)
def test_terms_that_are_not_safe_are_refused(change, why):
    it = small()
    terms = it.terms(**change)
    for role in (MIXER, JUDGE):
        reply = it.helper_reply(role, m.write(ask.AskOpening(terms, bytes(32))), terms)
        assert why in m.decode((m.Refused,), reply).reason


def test_a_policy_may_refuse_terms_that_are_safe():
    it = small()

    def accept(terms):
        raise ConfigError(f"the policy says a crowd of 5, and the terms {terms.crowd}")

    helper = Helper(
        role=MIXER,
        operator="B",
        signing_key=it.party_keys[MIXER],
        roster=it.roster,
        policy=POLICY,
        job="job",
        accept=accept,
    )
    request = m.write(ask.AskOpening(it.terms(), bytes(32)))
    answer = RESPOND[MIXER](helper, begin_job(POLICY, "job"), request, entropy=bytes(32), half=bytes(32))
    assert "the policy says a crowd of 5, and the terms 4" in answer.refusal


def test_a_client_refuses_other_parties_other_jobs_and_old_rounds():
    it = small()
    numbers = updates(it.ids, SIZE)
    it.run(numbers, terms=it.terms(round_=1))
    request = next(request for party, request in it.log if party == 0)
    assert "none is begun twice" in m.decode((m.Refused,), it.client_reply(0, request, numbers[0])).reason
    message = m.decode((ask.AskUpload,), request)
    for change, why in (
        ({"keys": (bytes(32), *it.terms().keys[1:])}, "than this client has pinned"),
        ({"job": "other"}, "under another policy or job"),
        ({"members": (1, 2, 3, 4, 5)}, "client 0 is not among the members"),
        ({"members": (0, 1, 2, 3, 99)}, "client 99 is not on the roster"),
        ({"crowd": 3}, "only the round changes"),
        ({}, "the opening of the server comes with a signature that does not verify"),
    ):
        terms = it.terms(round_=2, **change)
        asked = m.write(ask.AskUpload(terms, message.openings))
        assert why in m.decode((m.Refused,), it.client_reply(0, asked, numbers[0])).reason


def test_secrets_show_in_no_text():
    it = small()
    it.run(updates(it.ids, SIZE))
    helper = it.helper(MIXER)
    state = load(it.states[MIXER], helper)
    for value in (helper, state, state.round, it.task(it.terms())):
        assert it.party_keys[MIXER].hex() not in repr(value)
        assert repr(it.party_keys[MIXER])[2:-1] not in repr(value)
        assert repr(it.party_keys["server"])[2:-1] not in repr(value)


def test_states_of_other_jobs_and_broken_ones_are_refused():
    it = small()
    for state, why in ((begin_job(POLICY, "other"), "another policy or job"), (b"broken", "cannot be read")):
        it.states[MIXER] = state
        with pytest.raises(ConfigError, match=why):
            it.helper_reply(MIXER, m.write(ask.AskSet(())), it.terms())
