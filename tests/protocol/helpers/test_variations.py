"""Variations of known attacks: replays, equivocation, oracles, changed sizes and odd numbers; each is refused."""

import msgspec
import numpy as np
import pytest

from f2ed.core.errors import ConfigError, Refusal
from f2ed.protocol.helpers import JUDGE, MIXER, encoded
from f2ed.protocol.helpers import messages as m
from f2ed.protocol.helpers import requests as ask
from f2ed.protocol.helpers.envelope import _signed
from f2ed.protocol.helpers.field import P, add, pack
from f2ed.protocol.helpers.guard import admit, check_struck
from f2ed.protocol.helpers.keys import make_opening
from f2ed.protocol.helpers.machine import load
from f2ed.protocol.helpers.row_chunks import ShownRow, read_shown, row_digest, row_parts, write_shown
from f2ed.protocol.helpers.server_rows import MemoryRows, ServerRows
from f2ed.protocol.helpers.shares import SMUDGE
from f2ed.protocol.helpers.terms import ROLES, STEPS_PER_CLIP, bind, check
from f2ed.protocol.helpers.verdict import Verdict
from tests.protocol.helpers import liars
from tests.protocol.helpers.federation import MODEL, Federation, fixed, updates
from tests.protocol.helpers.test_known_breaks import refused, requests_to

SIZE = 50
replace = msgspec.structs.replace


def small(**changes):
    return Federation(clients=6, coordinates=SIZE, crowd=4, sketch=96, tests=8, **changes)


def rerouted(kind, role, change):
    """Return a `tamper` in whose name requests of a kind to a helper are changed; it repeats the step."""

    def instead(it, terms):
        true = it.helper_reply

        def reply(party, request, stated):
            if party == role:
                machine = {MIXER: liars.mixer, JUDGE: liars.judge}[role].MACHINE
                message = m.decode(tuple(machine), request)
                if isinstance(message, kind):
                    request = m.write(change(message))
            return true(party, request, stated)

        it.helper_reply = reply
        return terms

    return instead


# Replays.


@pytest.mark.parametrize("role", [MIXER, JUDGE])
def test_an_envelope_of_an_earlier_round_is_accused(role):
    it = small()
    numbers = updates(it.ids, SIZE)
    it.run(numbers)
    old = requests_to(it, role, ask.AskVote)[0].envelopes[2]
    terms = it.terms(round_=1)
    rerouted(ask.AskVote, role, lambda vote: replace(vote, envelopes=(*vote.envelopes[:2], old, *vote.envelopes[3:])))(
        it, terms
    )
    outcome = it.run(numbers, terms=terms)
    # The vote is signed over other envelopes than the server shows.
    assert outcome.mean is None
    assert f"the vote of the {role}" in outcome.aborted


def test_an_envelope_of_an_earlier_round_is_dropped_by_the_server():
    it, kept = small(), {}
    numbers = updates(it.ids, SIZE)

    def replay(party, _request, reply):
        if party == 2:
            kept.setdefault("old", reply)
            return kept["old"]
        return reply

    assert it.run(numbers, tamper=replay).mean is not None
    outcome = it.run(numbers, terms=it.terms(round_=1), tamper=replay)
    assert "another context: another round, model, policy or other terms" in outcome.dropped[2]


def test_a_seal_for_one_role_does_not_open_for_another():
    it = small()

    def swapped(party, _request, reply):
        if party != 1:
            return reply
        upload = m.read_reply(m.Upload, reply)
        server, mixer, judge = upload.envelope.sealed
        envelope = liars_signed(it, replace(upload.envelope, sealed=(server, judge, mixer)))
        return m.write(replace(upload, envelope=envelope))

    outcome = it.run(updates(it.ids, SIZE), tamper=swapped)
    assert outcome.mean is not None
    assert 1 not in outcome.kept
    assert {role: [each.client for each in accused] for role, accused in outcome.accused.items()} == {
        MIXER: [1],
        JUDGE: [1],
    }


def liars_signed(it, envelope):
    return _signed(envelope, it.client_keys[envelope.client])


def test_a_decision_of_an_earlier_round_opens_nothing():
    it = small()
    numbers = updates(it.ids, SIZE)
    it.run(numbers)
    old = requests_to(it, MIXER, ask.AskMask)[0]
    terms = it.terms(round_=1)
    rerouted(ask.AskMask, MIXER, lambda _: old)(it, terms)
    outcome = it.run(numbers, terms=terms)
    assert outcome.mean is None
    assert "the decision of the judge comes with" in outcome.aborted


# Equivocation.


def test_two_envelopes_of_one_client_for_two_helpers_give_no_set():
    """A client that colludes with the server makes two; the helpers sign different sets."""
    it = small()
    other = {}
    true = it.client_reply

    def twice(i, request, numbers):
        if i == 3:
            state = it.client_states.get(i, b"")
            other["envelope"] = m.read_reply(m.Upload, true(i, request, numbers)).envelope
            it.client_states[i] = state
        return true(i, request, numbers)

    it.client_reply = twice
    terms = it.terms()

    def changed(vote):
        return replace(
            vote, envelopes=tuple(other["envelope"] if each.client == 3 else each for each in vote.envelopes)
        )

    rerouted(ask.AskVote, JUDGE, changed)(it, terms)
    with pytest.MonkeyPatch.context() as patch:  # the server does not mind
        patch.setattr("f2ed.protocol.helpers.server.checked_signature", lambda *_: None)
        outcome = it.run(updates(it.ids, SIZE), terms=terms)
    assert outcome.mean is None
    assert "the set of the" in outcome.aborted


def test_two_sets_for_two_helpers_are_not_signed_by_both():
    it = small()
    terms = it.terms()
    rerouted(ask.AskSet, JUDGE, lambda asked: ask.AskSet(asked.clients[1:]))(it, terms)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("f2ed.protocol.helpers.server.checked_signature", lambda *_: None)
        outcome = it.run(updates(it.ids, SIZE), terms=terms)
    assert outcome.mean is None
    assert "gave no half of the seed" in outcome.aborted


def test_survivors_that_the_judge_did_not_sign_are_not_summed():
    it = small()
    terms = it.terms()
    rerouted(ask.AskMask, MIXER, lambda asked: ask.AskMask(replace(asked.weighed, kept=asked.weighed.kept[2:])))(
        it, terms
    )
    assert "the decision of the judge comes with" in it.run(updates(it.ids, SIZE), terms=terms).aborted


# Oracles.


def blamed(it, change=None, *, shown=None):
    """Run a round whose sum seems out of range at coordinate 3, with a server that shows other values."""
    values, parts = ServerRows.values, ServerRows.shown
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("f2ed.protocol.helpers.server.beyond_range", lambda *_: (3,))
        if change is not None:

            def lie(self, kept, coordinates):
                true = self._store.read
                shifted = MemoryRows()
                for client in kept:
                    shifted.put(client, change(client, true(client, 0, SIZE).copy()))
                self._store, plain = shifted, self._store
                try:
                    return values(self, kept, coordinates)
                finally:
                    self._store = plain

            patch.setattr(ServerRows, "values", lie)
        if shown is not None:
            patch.setattr(
                ServerRows,
                "shown",
                lambda self, kept, coordinates: shown(self, kept, coordinates, parts(self, kept, coordinates)),
            )
        return it.run(updates(it.ids, SIZE))


def test_a_blame_step_accuses_nobody_who_is_within_the_range():
    outcome = blamed(small())
    assert outcome.struck == ()
    assert "none: no single one is out of range" in outcome.aborted


def test_blame_is_no_oracle_for_coordinates():
    """A server that shifts a value to the edge would learn by the strike on which side of it the client's is."""
    it = small()
    numbers = updates(it.ids, SIZE)
    edge = 2 * STEPS_PER_CLIP + SMUDGE

    def shift(client, row):
        row[3] = add(row[3:4], np.array([(edge - int(numbers[client][3]) + SMUDGE) % P], np.uint64))[0]
        return row

    outcome = blamed(it, shift)
    assert "server and mixer show different values of the masked rows" in outcome.aborted
    assert outcome.struck == ()


def test_the_mixer_shows_nothing_that_is_not_in_an_envelope():
    def altered(self, kept, _coordinates, _true):
        rows = []
        for client in kept:
            row = self._store.read(client, 0, SIZE).copy()
            row[3] = add(row[3:4], np.array([2**30], np.uint64))[0]
            data = pack(row)
            rows.append(ShownRow(client, row_parts(data), (data,)))
        return self._pairs.seal(MIXER, b"shown", write_shown(rows))

    outcome = blamed(small(), shown=altered)
    assert "is not the one in its envelope; the server altered it" in outcome.aborted


def test_one_chunk_cannot_stand_for_another():
    def altered(self, kept, coordinates, true):  # noqa: ARG001
        rows = [replace(row, chunks=(bytes(len(row.chunks[0])),)) for row in read_shown(self._pairs._shown)]
        return self._pairs.seal(MIXER, b"shown", write_shown(rows))

    seal = liars.server_rows.PairKeys.seal

    def kept_plain(self, to, step, plain):
        if step == b"shown":
            self._shown = plain
        return seal(self, to, step, plain)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(liars.server_rows.PairKeys, "seal", kept_plain)
        outcome = blamed(small(), shown=altered)
    assert "a chunk of the masked row of client 0 is not the one in its envelope" in outcome.aborted


@pytest.mark.parametrize("length", [1, 8192, 8193, 20000])
def test_the_digest_of_a_row_covers_every_chunk_and_its_length(length):
    row = pack(np.arange(1, length + 1, dtype=np.uint64))
    assert len(row_parts(row)) == 32 * -(-length // 8192)
    others = {row_digest(row[:-8]), row_digest(row + bytes(8)), row_digest(bytes(8) + row[8:])} - {row_digest(row)}
    assert len(others) == 3


@pytest.mark.parametrize(("struck", "why"), [((3, 3), "twice"), ((1,), "client 1"), ((99,), "client 99")])
def test_strikes_are_for_clients_that_were_compared_and_left_out(struck, why):
    with pytest.raises(Refusal, match=why):
        check_struck((3, 4), struck)


def test_a_judge_that_strikes_a_client_in_the_sum_is_refused():
    it = small()
    lie = liars._wrapped(liars.judge, "decide", lambda found: Verdict(found.kept, found.kept[:1]))
    with lie:
        outcome = it.run(updates(it.ids, SIZE))
    assert "a strike for client 0, which cannot have earned one" in outcome.aborted
    assert 0 not in load(it.states[MIXER], it.helper(MIXER)).struck


# Sizes that change between messages.


@pytest.mark.parametrize("change", [{"coordinates": 49}, {"members": tuple(range(5))}, {"sketch": 48}, {"tests": 9}])
def test_a_client_that_was_told_other_sizes_is_not_in_the_set(change):
    """The server tells one client other terms; its envelope is bound to them."""
    it = small()
    terms = it.terms()
    true = it.client_reply

    def misled(i, request, numbers):
        if i == 2:
            asked = m.decode((ask.AskUpload,), request)
            request = m.write(replace(asked, terms=replace(asked.terms, **change)))
            numbers = numbers[: change.get("coordinates", SIZE)]
        return true(i, request, numbers)

    it.client_reply = misled
    outcome = it.run(updates(it.ids, SIZE), terms=terms)
    assert outcome.mean is not None
    assert 2 not in outcome.kept
    assert "the opening of the server comes with" in outcome.dropped[2]


@pytest.mark.parametrize("role", [MIXER, JUDGE])
def test_a_helper_that_was_told_other_sizes_ends_the_round(role):
    it = small()
    terms = it.terms()
    rerouted(ask.AskOpening, role, lambda asked: replace(asked, terms=replace(asked.terms, coordinates=49)))(it, terms)
    assert f"the opening of the {role} comes with" in it.run(updates(it.ids, SIZE), terms=terms).aborted


def test_an_update_of_another_length_is_not_masked():
    it = small()
    with pytest.raises(ConfigError, match=r"shape \(49,\); this round adds 50 coordinates"):
        it.client_reply(4, m.write(_asked(it, round_=1)), updates(it.ids, 49)[4])


def _asked(it, round_):
    terms = it.terms(round_=round_)
    context = bind(terms, it.roster, MODEL)
    openings = tuple(
        make_opening(
            role,
            terms,
            context,
            signing_key=it.party_keys[role],
            seed=fixed(role),
            half=b"" if role == "server" else fixed("half", role),
        )
        for role in ROLES
    )
    return ask.AskUpload(terms, openings)


# Odd numbers.


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_an_update_that_is_not_finite_is_not_encoded(value):
    with pytest.raises(ConfigError, match="1 coordinates that are NaN or infinite"):
        encoded(np.array([0.5, value], np.float32), key=bytes(32))(small().terms(coordinates=2))


def test_an_update_of_huge_numbers_is_clipped():
    found = encoded(np.array([3e38, -3e38], np.float32), key=bytes(32))(small().terms(coordinates=2))
    assert np.linalg.norm(found.astype(float)) == pytest.approx(STEPS_PER_CLIP, rel=1e-5)
    assert found[0] > 0 > found[1]


def test_a_norm_beyond_every_float_is_refused():
    with pytest.raises(ConfigError, match="a norm beyond the range of float64"):
        encoded(np.array([1e300, -1e300]), key=bytes(32))(small().terms(coordinates=2))


def test_updates_of_zeros_and_of_the_smallest_numbers_are_summed():
    it = small()
    numbers = updates(it.ids, SIZE) | {1: np.zeros(SIZE, np.int64)}
    assert it.run(numbers).mean is not None
    tiny = encoded(np.full(SIZE, 1e-45, np.float32), key=bytes(32))(it.terms())
    assert np.abs(tiny).max() <= 1


def test_all_updates_zero_is_a_round_that_moves_nothing():
    it = small()
    outcome = it.run({i: np.zeros(SIZE, np.int64) for i in it.ids})
    assert outcome.mean is not None
    assert not outcome.mean.any()


@pytest.mark.parametrize("coordinates", [0, -1])
def test_an_update_without_coordinates_is_no_terms(coordinates):
    data = msgspec.msgpack.encode(it_terms(coordinates))
    with pytest.raises(msgspec.ValidationError):
        msgspec.msgpack.decode(data, type=type(small().terms()))


def it_terms(coordinates):
    terms = small().terms()
    return [coordinates if name == "coordinates" else getattr(terms, name) for name in terms.__struct_fields__]


def test_an_update_of_one_coordinate_is_summed():
    it = Federation(clients=6, coordinates=1, crowd=4, sketch=96, tests=8)
    outcome = it.run({i: np.array([i * 1000], np.int64) for i in it.ids})
    assert outcome.mean is not None, outcome.aborted


@pytest.mark.parametrize("members", [(0, 1, 2, 3, 4, 4), (1, 0, 2, 3, 4, 5)])
def test_members_are_named_once_and_in_order(members):
    with pytest.raises(ConfigError, match="in ascending order, each once"):
        check(small().terms(members=members))


def test_one_client_twice_in_a_vote_is_refused():
    it = small()
    terms = it.terms()
    rerouted(ask.AskVote, JUDGE, lambda vote: replace(vote, envelopes=(vote.envelopes[0], *vote.envelopes)))(it, terms)
    assert "names one twice or out of order" in it.run(updates(it.ids, SIZE), terms=terms).aborted


# The edge of the crowd.


def test_exactly_the_crowd_is_opened_and_one_fewer_is_not():
    it = small()
    terms = it.terms()
    admit(terms, it.ids, None, it.ids[:4])
    with pytest.raises(Refusal, match="a sum of 3 clients; the policy demands a crowd of 4"):
        admit(terms, it.ids, None, it.ids[:3])
    numbers = updates(it.ids, SIZE)
    assert it.run({i: numbers[i] for i in (0, 1, 2, 3)}).kept == (0, 1, 2, 3)
    assert "3 clients uploaded" in it.run({i: numbers[i] for i in (0, 1, 2)}, terms=it.terms(round_=1)).aborted


def test_nested_survivors_may_shrink_by_exactly_the_step():
    terms, everyone = small(step=2).terms(), tuple(range(6))
    admit(terms, everyone, everyone, everyone[2:])
    with pytest.raises(Refusal, match="shrink by 1"):
        admit(terms, everyone, everyone, everyone[1:])


# A mixer with a client.


def test_a_mixer_with_a_client_cannot_let_a_long_update_pass():
    """The mixer may lie about its test values; the server's are not the same then."""
    it = small()
    numbers = updates(it.ids, SIZE, long=(2,))
    outcome = it.run(numbers)
    assert outcome.struck == (2,)
    again = small()
    with liars.mixer_tests():
        assert "different test values" in again.run(numbers).aborted


def test_a_mixer_with_a_client_cannot_exchange_its_seed_after_the_set_is_signed():
    it = small()
    true = liars.mixer.sum_masks

    def other(context, seeds, length):
        seeds = [(client, role, fixed("other") if client == 2 else seed) for client, role, seed in seeds]
        return true(context, seeds, length)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(liars.mixer, "sum_masks", other)
        outcome = it.run(updates(it.ids, SIZE))
    assert "mixer and judge disagree on the mask of the sum" in outcome.aborted


def test_a_restored_judge_cannot_decide_again_for_the_same_round():
    """Its random combination is drawn anew, and the mixer has answered the first one."""
    it = small()
    terms, numbers, copies = it.terms(), updates(it.ids, SIZE), []

    def copy(party, _request, reply):
        if party == JUDGE:
            copies.append(it.states[JUDGE])
        return reply

    it.run(numbers, terms=terms, tamper=copy)
    it.states[JUDGE] = copies[3]  # after it told its half of the seed
    gram = requests_to(it, JUDGE, ask.AskGram)[0]
    combined = m.read_reply(m.Combined, it.helper_reply(JUDGE, m.write(gram), terms))
    assert combined != requests_to(it, MIXER, ask.AskCombination)[0].combined
    assert "answers every step once" in refused(it, MIXER, ask.AskCombination(combined), terms)
    weights = requests_to(it, JUDGE, ask.AskWeights)[0]
    assert "the Gram matrix does not verify" in refused(it, JUDGE, weights, terms)
