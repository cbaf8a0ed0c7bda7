"""All-or-nothing: lies about the keys of an epoch, from either side."""

import pytest
from msgspec.structs import replace

from f2ed.core.errors import ConfigError
from f2ed.protocol.primitives import hybrid
from f2ed.protocol.primitives.crypto import ExchangeKey, sign
from f2ed.protocol.secagg.messages import AskKey, Ready, SignedKey, Upload, Wraps, read_reply, write
from f2ed.protocol.secagg.schemes.all_or_nothing import pairs
from f2ed.protocol.secagg.terms import bind_epoch
from tests.protocol.secagg.adversary import LOW_ORDER, VICTIM, assert_refused, cheat, epoch_signed, lie
from tests.protocol.secagg.shard_driver import Shard, load, make_terms, secret

KINDS = ("x25519+mlkem768", "x25519")


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda k: replace(k, signature=bytes(64)), "does not verify"),
        (lambda k: replace(k, client=3), "in the name of client 3"),
    ],
)
def test_the_server_closes_a_shard_over_a_bad_key(change, why):
    shard = Shard(4, "all-or-nothing")
    outcome = shard.run(reply=cheat("key", SignedKey, change))
    assert why in outcome.dropped[VICTIM]
    assert "gave no usable key (client 2)" in outcome.reason


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda k: replace(k, key=LOW_ORDER), "small order"),
        (lambda k: replace(k, kem=b""), "not an ML-KEM-768 key"),
        (lambda k: replace(k, kem=b"\xff" * 1184), "not an ML-KEM-768 key"),
    ],
)
def test_the_server_closes_a_shard_over_keys_that_are_none(change, why):
    shard = Shard(4, "all-or-nothing")

    def signed_badly(key):
        bad = change(key)
        return epoch_signed(shard, VICTIM, bad.key, bad.kem)

    outcome = shard.run(reply=cheat("key", SignedKey, signed_badly))
    assert outcome.total is None
    assert why in outcome.dropped[VICTIM]
    assert shard.refusals == {}


def test_the_server_closes_a_shard_over_a_copied_key():
    shard, seen = Shard(4, "all-or-nothing"), {}

    def copy(step, client, data):
        if step == "key":
            seen[client] = read_reply(SignedKey, data)
        if (step, client) != ("key", VICTIM):
            return data
        return write(epoch_signed(shard, 2, seen[1].key, seen[2].kem))

    outcome = shard.run(reply=copy)
    assert "the same key as another member" in outcome.dropped[VICTIM]
    assert outcome.total is None


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda w: replace(w, signature=bytes(64)), "does not verify"),
        (lambda w: replace(w, client=3), "ciphertexts in the name of client 3"),
        (lambda w: replace(w, ciphertexts=w.ciphertexts[1:]), "not exactly one ciphertext"),
        (lambda w: replace(w, ciphertexts=(bytes(7), *w.ciphertexts[1:])), "not exactly one ciphertext"),
        (lambda w: replace(w, ciphertexts=(bytes(1088), *w.ciphertexts[1:])), "does not verify"),
    ],
)
def test_the_server_names_who_sent_bad_ciphertexts(change, why):
    shard = Shard(4, "all-or-nothing")
    outcome = shard.run(reply=cheat("wraps", Wraps, change))
    assert why in outcome.dropped[VICTIM]
    assert "gave no usable ciphertexts (client 2)" in outcome.reason
    assert (outcome.total, outcome.keys) == (None, None)


def test_the_server_closes_a_shard_over_a_member_that_is_ready_with_other_keys():
    shard = Shard(4, "all-or-nothing")
    outcome = shard.run(reply=cheat("chains", Ready, lambda _: Ready(bytes(32))))
    assert "ready with other keys" in outcome.dropped[VICTIM]
    assert "have no chains (client 2)" in outcome.reason


def forge(shard, ask, client, key):
    """Give a member another key, which it signed itself."""
    keys = tuple(epoch_signed(shard, client, key, k.kem) if k.client == client else k for k in ask.keys)
    return replace(ask, keys=keys)


def other_kem(shard, ask, kem):
    """Give client 3 another ML-KEM key, which it signed itself."""
    return replace(
        ask, keys=tuple(epoch_signed(shard, 3, each.key, kem) if each.client == 3 else each for each in ask.keys)
    )


OTHER_KEY = ExchangeKey(secret("the server's own")).public
KEY_LIES = {
    "client 1 comes with a signature that does not verify": lambda _, ask: replace(
        ask, keys=(replace(ask.keys[0], key=OTHER_KEY), *ask.keys[1:])
    ),
    "key of client 1 comes with": lambda _, ask: replace(
        ask, keys=(replace(ask.keys[0], kem=ask.keys[2].kem), *ask.keys[1:])
    ),
    "own key was replaced": lambda shard, ask: forge(shard, ask, VICTIM, OTHER_KEY),
    "not exactly those of the members": lambda _, ask: replace(ask, keys=ask.keys[:-1]),
    "names one twice": lambda _, ask: replace(ask, keys=(*ask.keys, ask.keys[-1])),
    "two members with equal keys": lambda shard, ask: forge(shard, ask, 4, ask.keys[0].key),
    "all zero": lambda shard, ask: forge(shard, ask, 3, LOW_ORDER),
    "ML-KEM key of 0 bytes; it must have 1184": lambda shard, ask: other_kem(shard, ask, b""),
    "not an ML-KEM-768 key": lambda shard, ask: other_kem(shard, ask, b"\xff" * 1184),
    "no keys of epoch 1": lambda _, ask: replace(ask, terms=replace(ask.terms, epoch=1)),
    "were made in round 1": lambda _, ask: replace(ask, terms=replace(ask.terms, round=1)),
}


@pytest.mark.parametrize("why", KEY_LIES)
def test_a_client_refuses_lies_about_the_keys_of_an_epoch(why, monkeypatch):
    monkeypatch.setattr(Shard, "_encapsulate", lambda _self, _client, public: hybrid.encapsulate(public))
    shard = Shard(4, "all-or-nothing")
    outcome = shard.run(request=lie("wraps", lambda ask: KEY_LIES[why](shard, ask)))
    assert_refused(shard, outcome, why)
    assert outcome.total is None


def rewrap(shard, keyset=None, sender=1, ciphertext=bytes(1088)):
    """Return a ciphertext for the victim that its sender, a malicious member, signed for it."""
    context = bind_epoch(shard.terms, shard.roster, shard.terms.round)
    place = pairs.recipients(shard.terms.members, sender).index(VICTIM)

    def change(ask):
        (old,) = (each for each in ask.wraps if each.client == sender)
        digests = list(old.digests)
        digests[place] = pairs.digest(ciphertext)
        text = pairs.wraps_text(context, keyset or load(shard.states[VICTIM], "test").key.keyset, sender, digests)
        new = replace(old, ciphertext=ciphertext, digests=tuple(digests), signature=sign(shard.signing[sender], text))
        return replace(ask, wraps=tuple(new if each.client == sender else each for each in ask.wraps))

    return change


def swapped(ask):
    """Exchange the ciphertexts of two senders."""
    first, second, *rest = ask.wraps
    return replace(
        ask,
        wraps=(
            replace(first, ciphertext=second.ciphertext),
            replace(second, ciphertext=first.ciphertext),
            *rest,
        ),
    )


WRAP_LIES = {
    "ciphertexts are not exactly those": lambda _: lambda ask: replace(ask, wraps=ask.wraps[:-1]),
    "not exactly those of the members": lambda _: lambda ask: replace(ask, wraps=(*ask.wraps, ask.wraps[-1])),
    "signed another ciphertext for this client": lambda _: swapped,
    "client 1 signed another": lambda _: (
        lambda ask: replace(ask, wraps=(replace(ask.wraps[0], digests=()), *ask.wraps[1:]))
    ),
    "ciphertext of client 1 comes with a signature": lambda _: (
        lambda ask: replace(ask, wraps=(replace(ask.wraps[0], signature=bytes(64)), *ask.wraps[1:]))
    ),
    "ciphertext of client 1 comes with": lambda shard: rewrap(shard, keyset=bytes(32)),
    "ciphertext of 3 bytes": lambda shard: rewrap(shard, ciphertext=bytes(3)),
}


@pytest.mark.parametrize("why", WRAP_LIES)
def test_a_client_refuses_lies_about_the_ciphertexts(why):
    shard = Shard(6, "all-or-nothing")
    outcome = shard.run(request=lie("chains", WRAP_LIES[why](shard)))
    assert_refused(shard, outcome, why)
    assert outcome.total is None


def test_a_ciphertext_of_another_secret_opens_nothing():
    """A malicious member may encapsulate what it likes: the masks of its pair do not cancel, for it alone to know."""
    shard = Shard(4, "all-or-nothing")
    outcome = shard.run(request=lie("chains", rewrap(shard)))
    assert shard.refusals == {}
    assert shard.total_of(outcome) != shard.sum_of(range(1, 5))


@pytest.mark.parametrize("kind", KINDS)
def test_of_every_pair_one_member_sends_and_both_find_the_same_chain(kind):
    for size in range(3, 12):
        shard = Shard(size, "all-or-nothing", agreement=kind)
        members = shard.terms.members
        outcome = shard.run()
        assert shard.total_of(outcome) == shard.sum_of(members)
        sent = {(sender, to) for sender in members for to in pairs.recipients(members, sender)}
        assert len(sent) == size * (size - 1) // 2
        assert {frozenset(pair) for pair in sent} == {frozenset((a, b)) for a in members for b in members if a != b}
        assert all((sender, to) in sent for to in members for sender in pairs.senders(members, to))
        counts = [len(pairs.recipients(members, each)) for each in members]
        assert max(counts) - min(counts) <= 1


def test_x25519_alone_sends_no_ciphertext_bytes_and_refuses_ml_kem_keys():
    shard = Shard(4, "all-or-nothing", agreement="x25519")
    outcome = shard.run(request=lie("wraps", lambda ask: other_kem(shard, ask, bytes(1184))))
    assert_refused(shard, outcome, "ML-KEM key of 1184 bytes; it must have 0")
    assert shard.encapsulated == {}


def test_the_agreement_is_part_of_what_is_bound():
    terms = make_terms(range(1, 5), "all-or-nothing")
    roster = Shard(4).roster
    assert bind_epoch(terms, roster, 0) != bind_epoch(replace(terms, agreement="x25519"), roster, 0)
    assert bind_epoch(terms, roster, 0) != bind_epoch(terms, roster, 1)


def test_a_client_without_ml_kem_says_so(monkeypatch):
    class Without:
        @staticmethod
        def from_seed_bytes(_):
            raise hybrid.UnsupportedAlgorithm("no")

    monkeypatch.setattr(hybrid, "MLKEM768PrivateKey", Without)
    shard = Shard(4, "all-or-nothing")
    with pytest.raises(ConfigError, match=r"'x25519.mlkem768' needs ML-KEM-768"):
        shard.respond(VICTIM, write(AskKey(shard.terms)))
    shard.respond(VICTIM, write(AskKey(replace(shard.terms, agreement="x25519"))))
    assert shard.refusals == {}


def test_a_client_refuses_other_members_in_the_round_of_its_keys():
    shard = Shard(6, "all-or-nothing")
    few = make_terms(range(1, 5), "all-or-nothing")
    shard.respond(VICTIM, write(AskKey(few)))
    shard.respond(VICTIM, write(AskKey(make_terms((1, 2, 5, 6), "all-or-nothing"))))
    assert "gave a key in round 0 already" in shard.refusals[VICTIM]


def test_a_key_that_is_asked_for_again_is_the_same():
    shard = Shard(4, "all-or-nothing")
    ask = write(AskKey(shard.terms))
    assert shard.respond(VICTIM, ask) == shard.respond(VICTIM, ask)


def recorded(shard):
    """Run a round, and return what the victim was asked."""
    asked = {}

    def note(step, client, data):
        if client == VICTIM:
            asked[step] = data
        return data

    shard.run(request=note)
    return asked


@pytest.mark.parametrize(
    ("step", "why"),
    [("key", "round 0 was begun already"), ("wraps", "wrapped already"), ("chains", "out of order")],
)
def test_no_step_of_an_agreement_is_taken_twice(step, why):
    shard = Shard(4, "all-or-nothing")
    asked = recorded(shard)
    shard.respond(VICTIM, asked[step])
    assert why in shard.refusals[VICTIM]


def test_an_agreement_that_was_complete_is_only_ever_replaced_by_a_fresh_one():
    shard = Shard(4, "all-or-nothing")
    shard.run(drop=lambda step, _client: step == "upload")
    old = load(shard.states[VICTIM], "test").key
    shard.respond(VICTIM, write(AskKey(shard.terms)))
    new = load(shard.states[VICTIM], "test").key
    assert old.chains
    assert (new.chains, new.keyset) == ((), b"")
    assert new.public != old.public


def test_an_upload_before_the_agreement_is_complete_is_refused():
    shard = Shard(4, "all-or-nothing")
    asked = recorded(shard)
    fresh = Shard(4, "all-or-nothing")
    fresh.run(drop=lambda step, client: (step, client) == ("chains", VICTIM), request=lambda *each: each[2])
    reply = fresh.respond(VICTIM, asked["upload"])
    assert "other keys of round 0 than this client agreed on" in fresh.refusals[VICTIM]
    with pytest.raises(Exception, match="it refused"):
        read_reply(Upload, reply)


def test_the_members_make_fresh_keys_after_one_lost_its_own():
    """A restart costs the shard one round, and the new keys are of a later round than the old ones."""
    shard = Shard(4, "all-or-nothing")
    shard.run()
    shard.states[3] = b""
    shard.next_round()
    lost = shard.run()
    assert "holds no keys of epoch 0 that were made in round 0" in lost.dropped[3]
    assert lost.keys is None
    before = {client: load(shard.states[client], "test").key for client in (1, 2, 4)}
    terms = shard.next_round()
    outcome = shard.run()
    assert shard.total_of(outcome) == shard.sum_of(terms.members)
    assert outcome.keys.since == 2
    for client, old in before.items():
        new = load(shard.states[client], "test").key
        assert (old.since, new.since) == (0, 2)
        assert not set(old.chains) & set(new.chains) - {b""}


def test_a_client_refuses_to_go_back_to_earlier_keys():
    shard = Shard(4, "all-or-nothing")
    shard.run()
    shard.states[3] = b""
    shard.next_round()
    shard.run()
    later = shard.next_round()
    shard.respond(VICTIM, write(AskKey(later)))
    shard.refusals.clear()
    shard.respond(VICTIM, write(AskKey(replace(later, round=1))))
    assert "on other terms" in shard.refusals[VICTIM] or "begun already" in shard.refusals[VICTIM]


def test_the_keys_stay_when_a_member_was_only_silent():
    shard = Shard(4, "all-or-nothing")
    agreed = shard.run().keys
    shard.next_round()
    closed = shard.run(drop=lambda step, client: client == 3)  # noqa: ARG005
    assert closed.total is None
    assert closed.keys == agreed
    assert agreed.since == 0
    terms = shard.next_round()
    outcome = shard.run()
    assert shard.total_of(outcome) == shard.sum_of(terms.members)
    assert outcome.keys == agreed
