"""Attacks known from the literature: split views, differencing, replays, another model, forged parcels."""

import hashlib

import pytest
from msgspec.structs import replace

from f2ed.protocol.secagg import secure_sum
from f2ed.protocol.secagg.messages import Upload, read_reply, write
from f2ed.protocol.secagg.schemes import read_request
from f2ed.protocol.secagg.schemes.dropout_tolerant.messages import (
    Advertisement,
    Alive,
    Confirmation,
    Confirmations,
    Delivery,
    Invite,
    Peers,
)
from f2ed.protocol.secagg.terms import bind
from tests.protocol.secagg.adversary import VICTIM, assert_refused, cheat, lie
from tests.protocol.secagg.shard_driver import MODEL, Shard


def test_a_split_view_opens_nothing():
    """Given two lists of survivors, the halves would unmask two sums whose difference is the update of client 8."""
    shard = Shard(8)
    server = secure_sum(shard.terms, shard.roster, model=MODEL)
    requests = next(server)
    for _ in range(3):
        requests = server.send({client: shard.respond(client, asked) for client, asked in requests.items()})
    all_eight, without_one = tuple(range(1, 9)), tuple(range(1, 8))
    views = {client: all_eight if client in {1, 2, 3, 8} else without_one for client in all_eight}
    signed = {c: read_reply(Confirmation, shard.respond(c, write(Alive(view)))) for c, view in views.items()}
    confirmed = dict(shard.states)
    for view in (all_eight, without_one):
        agreeing = [client for client in view if views[client] == view]
        assert len(agreeing) < shard.terms.threshold
        for signers, why in ((view, "a split view"), (agreeing, "4 confirmed who is alive; it takes 5")):
            shard.states = dict(confirmed)
            shard.refusals.clear()
            for client in agreeing:
                shard.respond(client, write(Confirmations(tuple(signed[signer] for signer in signers))))
            assert shard.refusals.keys() == set(agreeing)
            assert all(why in reason for reason in shard.refusals.values())


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda m: Confirmations(m.signatures[:3]), "3 confirmed who is alive; it takes 4"),
        (lambda m: Confirmations(tuple(s for s in m.signatures if s.client != VICTIM)), "own confirmation is absent"),
        (lambda m: Confirmations((*m.signatures, m.signatures[-1])), "a list of confirmations that names one twice"),
        (
            lambda m: Confirmations((*m.signatures[:-1], replace(m.signatures[-1], signature=bytes(64)))),
            "client 6 confirmed another list",
        ),
        (lambda m: Confirmations((*m.signatures, replace(m.signatures[-1], client=7))), "client 7, which is not alive"),
    ],
)
def test_a_client_refuses_confirmations_that_do_not_add_up(change, why):
    shard = Shard(6)
    assert_refused(shard, shard.run(request=lie("reveal", change)), why)


@pytest.mark.parametrize("step", ["share", "upload"])
def test_messages_of_an_earlier_round_are_refused(step):
    shard = Shard(5)
    old = {}
    shard.run(request=lambda at, client, data: old.setdefault((at, client), data))
    shard.next_round()

    def replay(at, client, data):
        return old[at, client] if (at, client) == (step, VICTIM) else data

    outcome = shard.run(request=replay)
    assert VICTIM in shard.refusals
    assert "it refused" in outcome.dropped[VICTIM]
    assert VICTIM not in outcome.survivors


def test_confirmations_of_an_earlier_round_are_refused():
    shard = Shard(5)
    old = {}
    shard.run(request=lambda at, client, data: old.setdefault((at, client), data))
    shard.next_round()
    outcome = shard.run(
        request=lambda at, client, data: old[at, client] if (at, client) == ("reveal", VICTIM) else data
    )
    assert_refused(shard, outcome, "confirmed another list")


def test_a_client_given_another_model_is_refused_by_all_and_refuses_all():
    """Model inconsistency (Pasquini et al., CCS 2022): the victim's keys are bound to a model of its own."""
    shard = Shard(5)
    shard.models[VICTIM] = hashlib.sha256(b"made for the victim").digest()
    outcome = shard.run()
    assert "does not verify" in outcome.dropped[VICTIM]
    assert outcome.survivors == (1, 3, 4, 5)
    # Passed on by a lying server, the victim's keys are refused by the others, and theirs by the victim.
    shard = Shard(5)
    shard.models[VICTIM] = hashlib.sha256(b"made for the victim").digest()
    advertised = {c: read_reply(Advertisement, shard.respond(c, write(Invite(shard.terms)))) for c in shard.members}
    for client in shard.members:
        shard.respond(client, write(Peers(tuple(advertised.values()))))
    assert "the keys of client 1 come with" in shard.refusals[VICTIM]
    assert all("the keys of client 2 come with" in shard.refusals[c] for c in (1, 3, 4, 5))


def test_a_client_given_another_model_opens_nothing_in_all_or_nothing_mode():
    """Even if the server overlooks the tag, the masks do not cancel."""
    shard = Shard(4, "all-or-nothing")
    shard.models[VICTIM] = hashlib.sha256(b"made for the victim").digest()
    tag = bind(shard.terms, shard.roster, MODEL)[:8]
    assert "another context" in shard.run().dropped[VICTIM]
    shard.next_round()
    tag = bind(shard.terms, shard.roster, MODEL)[:8]
    outcome = shard.run(reply=cheat("upload", Upload, lambda upload: replace(upload, tag=tag)))
    assert outcome.reason is None
    assert shard.total_of(outcome) != shard.sum_of(shard.terms.members)


def parcel(signed, **changes):
    return replace(signed, parcel=replace(signed.parcel, **changes))


FORGED = "is not as its dealer signed it"


@pytest.mark.parametrize("place", [0, 40, 81])
def test_a_corrupted_ciphertext_is_refused_in_the_name_of_the_server(place):
    """The dealer signed something else, so that no dealer can be blamed for it."""
    shard = Shard(5)

    def corrupt(delivery: Delivery):
        first, *rest = delivery.parcels
        sealed = bytearray(first.parcel.sealed)
        sealed[place] ^= 0x10
        return Delivery((parcel(first, sealed=bytes(sealed)), *rest))

    outcome = shard.run(request=lie("upload", corrupt))
    assert_refused(shard, outcome, f"the parcel of client 1 {FORGED}")
    assert outcome.survivors == (1, 3, 4, 5)
    assert outcome.blame == ()


def test_a_parcel_for_somebody_else_is_refused():
    shard = Shard(5)

    def misdeliver(delivery: Delivery):
        return Delivery((parcel(delivery.parcels[0], recipient=3), *delivery.parcels[1:]))

    assert_refused(shard, shard.run(request=lie("upload", misdeliver)), "a parcel for client 3 was delivered")


def test_a_parcel_for_somebody_else_in_the_victims_name_is_refused():
    shard, boxes = Shard(5), {}

    def redirect(step, client, data):
        if step != "upload":
            return data
        boxes[client] = read_request(data).parcels
        if client != VICTIM:
            return data
        (stolen,) = (each for each in boxes[1] if each.parcel.dealer == 3)
        mine = (each for each in boxes[VICTIM] if each.parcel.dealer != 3)
        forged = sorted((*mine, parcel(stolen, recipient=VICTIM)), key=lambda each: each.parcel.dealer)
        return write(Delivery(tuple(forged)))

    assert_refused(shard, shard.run(request=redirect), f"the parcel of client 3 {FORGED}")


def test_parcels_swapped_between_dealers_are_refused():
    shard = Shard(5)

    def swap(delivery: Delivery):
        one, two, *rest = delivery.parcels
        return Delivery((parcel(two, dealer=one.parcel.dealer), parcel(one, dealer=two.parcel.dealer), *rest))

    assert_refused(shard, shard.run(request=lie("upload", swap)), FORGED)


@pytest.mark.parametrize("change", [lambda path: path[:-1], lambda path: (*path, bytes(32)), lambda path: path[::-1]])
def test_a_path_that_does_not_lead_to_the_signed_root_is_refused(change):
    shard = Shard(6)

    def stray(delivery: Delivery):
        first, *rest = delivery.parcels
        return Delivery((replace(first, path=change(first.path)), *rest))

    assert_refused(shard, shard.run(request=lie("upload", stray)), FORGED)


def test_a_parcel_without_its_dealers_signature_is_refused():
    shard = Shard(5)

    def bare(delivery: Delivery):
        first, *rest = delivery.parcels
        return Delivery((replace(first, signature=bytes(64)), *rest))

    assert_refused(shard, shard.run(request=lie("upload", bare)), f"the parcel of client 1 {FORGED}")


def test_a_parcel_from_itself_or_a_stranger_is_refused():
    for dealer in (VICTIM, 9):
        shard = Shard(5)

        def forge(delivery: Delivery, dealer=dealer):
            forged = parcel(delivery.parcels[0], dealer=dealer)
            kept = [each for each in delivery.parcels if each.parcel.dealer != dealer]
            return Delivery(tuple(sorted([*kept, forged], key=lambda each: each.parcel.dealer)))

        assert_refused(shard, shard.run(request=lie("upload", forge)), f"a parcel from client {dealer}")


def test_a_parcel_that_comes_twice_is_refused():
    """Counted twice, it would make a crowd of fewer members than the terms ask for."""
    shard = Shard(5)
    outcome = shard.run(request=lie("upload", lambda d: Delivery((d.parcels[0], *d.parcels[:-1]))))
    assert_refused(shard, outcome, "a list of parcels that names one twice")
