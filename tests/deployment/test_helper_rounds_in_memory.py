"""The round under way apart from a helper's lasting memory: crashes at every write, lost rounds, restored files."""

import os
import shutil
from collections import Counter

import msgspec
import pytest

from f2ed.core import files
from f2ed.deployment import helper_store
from f2ed.deployment.helper_store import HelperStore
from f2ed.protocol.helpers import JUDGE, MIXER
from f2ed.protocol.helpers.helper_state import HelperState
from f2ed.protocol.helpers.parted import joined, parted
from tests.protocol.helpers.federation import Federation, updates

SIZE = 20
WRITES = {MIXER: 16, JUDGE: 12}
"""Of a round: two for each step."""


class KilledError(BaseException):
    """The process ends here."""


def small(folder):
    """Return a federation whose helpers start anew with every request, and have taken up the job."""
    it = Federation(clients=4, coordinates=SIZE, crowd=3, sketch=48, tests=4, spot=1)

    def store(role):
        return HelperStore(folder / role, it.helper(role), rounds=folder / "memory" / role)

    for role in (MIXER, JUDGE):
        store(role).begin()
    it.helper_reply = lambda role, request, _: store(role).answer(request, os.urandom)
    it.store = store
    return it


def test_the_disk_holds_no_round_and_memory_one(tmp_path):
    it = small(tmp_path)
    states = []

    def look(party, request, reply):  # noqa: ARG001
        if party in WRITES:
            states.append(msgspec.msgpack.decode(it.store(party).path.read_bytes(), type=HelperState))
            assert len(list((tmp_path / "memory" / party).iterdir())) == 1
        return reply

    assert it.run(updates(it.ids, SIZE), tamper=look).mean is not None
    assert len(states) == sum(WRITES.values()) // 2
    assert all(state.round is None and state.apart and state.mark for state in states)


@pytest.mark.parametrize("every", [5, pytest.param(1, marks=pytest.mark.nightly)])
@pytest.mark.parametrize("done", [False, True])
@pytest.mark.parametrize("role", [MIXER, JUDGE])
def test_a_helper_killed_at_any_write_goes_on(tmp_path, monkeypatch, role, done, every):
    """Before a write or after it: the request is asked again, and what was stored is repeated."""
    numbers = None
    for write in range(0, WRITES[role], every):
        it = small(tmp_path / str(write))
        numbers = numbers or updates(it.ids, SIZE)
        plain, count, given = it.helper_reply, Counter(), {}
        true = files.write_atomic

        def killing(path, data, *, true=true, count=count, write=write, **named):
            count["writes"] += 1
            if done:
                true(path, data, **named)
            if count["writes"] == write + 1:
                raise KilledError
            if not done:
                true(path, data, **named)

        def answered(party, request, terms, plain=plain, given=given, killing=killing, count=count):
            if party == role:
                with monkeypatch.context() as patch:
                    patch.setattr(files, "write_atomic", killing)
                    patch.setattr(helper_store, "write_atomic", killing)
                    try:
                        given[request] = plain(party, request, terms)
                    except KilledError:
                        count["killed"] += 1
            return plain(party, request, terms)

        it.helper_reply = answered
        outcome = it.run(numbers)
        assert outcome.mean is not None, (write, outcome.aborted)
        assert count["killed"] == 1
        # Whatever was answered is answered in the same way.
        for request, reply in list(given.items())[-1:]:
            assert plain(role, request, None) == reply


@pytest.mark.parametrize(("role", "step"), [(MIXER, 5), (JUDGE, 4)])
def test_a_round_is_over_for_a_machine_that_was_started_again(tmp_path, role, step):
    it = small(tmp_path)
    plain, asked = it.helper_reply, Counter()

    def restarted(party, request, terms):
        asked[party] += 1
        if party == role and asked[party] == step:
            shutil.rmtree(tmp_path / "memory" / role)
        return plain(party, request, terms)

    it.helper_reply = restarted
    numbers = updates(it.ids, SIZE)
    assert "without a round: none was opened, or it is spent" in it.run(numbers).aborted
    it.helper_reply = plain
    assert it.run(numbers, terms=it.terms(round_=1)).mean is not None


@pytest.mark.parametrize("role", [MIXER, JUDGE])
def test_a_restored_file_has_no_round_to_answer_from(tmp_path, role):
    """A copy of the disk from the middle of a round does not bring its keys back."""
    it = small(tmp_path)
    copies = []

    def copy(party, request, reply):
        if party == role:
            copies.append((it.store(role).path.read_bytes(), request))
        return reply

    it.run(updates(it.ids, SIZE), tamper=copy)
    stored, _ = copies[-2]
    it.store(role).path.write_bytes(stored)
    reply = it.store(role).answer(copies[-1][1], os.urandom)
    assert b"without a round" in reply


def test_a_state_is_the_same_after_it_was_taken_apart():
    it = Federation(clients=4, coordinates=SIZE, crowd=3, sketch=48, tests=4, spot=1)
    it.run(updates(it.ids, SIZE), tamper=lambda party, _, reply: None if party == JUDGE and len(it.log) > 8 else reply)
    for stored in it.states.values():
        lasting, under_way = parted(stored)
        assert under_way
        assert joined(lasting, under_way) == stored
        assert joined(stored, b"") == stored  # as older versions wrote it
        assert msgspec.msgpack.decode(joined(lasting, under_way[:-1]), type=HelperState).round is None
