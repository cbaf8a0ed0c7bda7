"""Hybrid keys in dropout-tolerant shards: masks that either member's secret rebuilds, and liars that spoil no sum."""

import pytest
from msgspec.structs import replace

from f2ed.protocol.primitives.crypto import digest, sign
from f2ed.protocol.primitives.hybrid import encapsulate
from f2ed.protocol.secagg.keys import sends
from f2ed.protocol.secagg.messages import read_reply, write
from f2ed.protocol.secagg.schemes import read_request
from f2ed.protocol.secagg.schemes.dropout_tolerant import keys, links, merkle
from f2ed.protocol.secagg.schemes.dropout_tolerant.evidence import check_blame
from f2ed.protocol.secagg.schemes.dropout_tolerant.messages import Advertisement, Complaint, Shares, TolerantUpload
from f2ed.protocol.secagg.state import store
from f2ed.protocol.secagg.terms import bind
from tests.protocol.secagg.adversary import VICTIM, cheat, lie, signed
from tests.protocol.secagg.shard_driver import MODEL, Shard, load

KINDS = ["x25519+mlkem768", "x25519"]
LIAR, PEER = 2, 3  # Of the places 1 and 2, the smaller one sends.


@pytest.mark.parametrize("kind", KINDS)
def test_either_member_of_every_pair_rebuilds_the_same_masks(kind):
    """All 132 directions of twelve members: what each derived itself, and what its secret alone gives to others."""
    shard, phases, parcels = Shard(12, agreement=kind), {}, {}

    def request(step, client, data):
        if step == "upload":
            phases[client] = load(shard.states[client], "test").phase
            parcels.update({(each.parcel.dealer, client): each.parcel for each in read_request(data).parcels})
        return data

    shard.run(request=request)
    context, found = bind(shard.terms, shard.roster, MODEL), {}
    for client, phase in phases.items():
        public = {peer.client: peer for peer in phase.peers}
        own = links.mask_secret(shard.terms, context, client, phase.mask)
        sent = {each.peer: each.root for each in phase.roots}
        for peer in public.keys() - {client}:
            pair = links.pair_of(shard.terms, public[client], public[peer])
            link = parcels[pair.sender.client, pair.recipient.client].link
            found[client, peer] = links.rebuild(context, pair, link, own)
            assert sent.get(peer, found[client, peer]) == found[client, peer]
        assert len(sent) in ({5, 6} if kind == KINDS[0] else {0})
    assert len(found) == 132
    assert all(found[one, other] == found[other, one] for one, other in found)
    assert len(set(found.values())) == 66


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("step", ["share", "upload", "confirm", "reveal"])
@pytest.mark.parametrize("gone", [{1}, {12}, {2, 7}, {1, 2, 3, 4, 5}])
def test_the_sum_of_the_survivors_is_exact_whoever_drops(kind, step, gone):
    shard = Shard(12, agreement=kind)
    outcome = shard.run(drop=lambda at, client: at == step and client in gone)
    alive = set(shard.members) - (gone if step in {"share", "upload"} else set())
    assert set(outcome.survivors) == alive
    assert shard.total_of(outcome) == shard.sum_of(alive)


class Liar:
    """A dealer that changes the link to one peer, signs it, and may vanish."""

    def __init__(self, change, *, size=7, gone=None, **changes):
        self.shard, self.change, self.advertised = Shard(size, colluders=1, **changes), change, {}
        self.outcome = self.shard.run(reply=self._reply, drop=lambda step, client: (step, client) == gone)

    def _reply(self, step, client, data):
        if step == "advertise":
            self.advertised[client] = read_reply(Advertisement, data)
        return write(self._spoiled(read_reply(Shares, data))) if (step, client) == ("share", LIAR) else data

    def _spoiled(self, shares):
        context = bind(self.shard.terms, self.shard.roster, MODEL)
        parcels = tuple(self.change(self, each) if each.recipient == PEER else each for each in shares.parcels)
        root = merkle.root_of([keys.parcel_digest(each) for each in parcels])
        everyone = keys.advertised_digest(each for _, each in sorted(self.advertised.items()))
        signature = sign(self.shard.signing[LIAR], keys.parcels_text(context, LIAR, everyone, root))
        state = load(self.shard.states[LIAR], "test")
        self.shard.states[LIAR] = store(replace(state, phase=replace(state.phase, dealt=(root, signature))))
        return Shares(parcels, signature)


def other_ciphertext(liar, parcel):
    made = encapsulate(liar.advertised[PEER].mask_kem)
    return replace(parcel, link=replace(parcel.link, ciphertext=made.ciphertext))


def other_commitment(_liar, parcel):
    return replace(parcel, link=replace(parcel.link, commitment=digest(b"another")))


def other_wrap(_liar, parcel):
    return replace(parcel, link=replace(parcel.link, wrapped=bytes(32)))


@pytest.mark.parametrize("change", [other_ciphertext, other_commitment])
def test_a_link_that_its_recipient_cannot_use_is_left_out_when_its_sender_vanishes(change):
    """Nobody can know the masks of that pair, so they are in no upload, and the rest adds up."""
    liar = Liar(change, gone=("upload", LIAR))
    assert liar.outcome.survivors == (1, 3, 4, 5, 6, 7)
    assert liar.shard.total_of(liar.outcome) == liar.shard.sum_of(liar.outcome.survivors)
    assert {(LIAR, PEER), (PEER, LIAR)} & {each.clients for each in liar.outcome.blame}
    for each in liar.outcome.blame:  # anyone can check it, from the complaint about the link alone
        check_blame(each, liar.shard.terms, liar.shard.roster)


@pytest.mark.parametrize("change", [other_ciphertext, other_commitment])
def test_a_link_that_its_recipient_cannot_use_closes_the_shard_while_both_stay(change):
    liar = Liar(change)
    assert "client 2 and client 3 do not cancel" in liar.outcome.reason
    assert liar.outcome.total is None
    assert not liar.shard.refusals


def test_a_wrong_wrap_closes_the_shard_of_a_sender_that_vanishes_and_names_it():
    liar = Liar(other_wrap, gone=("upload", LIAR))
    assert "cannot be rebuilt: client 2 sent" in liar.outcome.reason
    assert liar.outcome.total is None


def test_a_wrong_wrap_does_no_harm_while_its_sender_stays():
    liar = Liar(other_wrap)
    assert liar.shard.total_of(liar.outcome) == liar.shard.sum_of(liar.shard.members)


def test_a_bad_link_to_a_recipient_that_vanishes_closes_the_shard_and_names_its_sender():
    liar = Liar(other_ciphertext, gone=("upload", PEER))
    assert "cannot be rebuilt: client 2 sent" in liar.outcome.reason


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        (lambda _, parcel: replace(parcel, link=None), KINDS[0]),
        (lambda _, parcel: replace(parcel, ciphertext=b""), KINDS[0]),
        (lambda _, parcel: replace(parcel, link=replace(parcel.link, ciphertext=b"short")), KINDS[0]),
        (lambda _, parcel: replace(parcel, ciphertext=bytes(1088)), KINDS[1]),
    ],
)
def test_the_server_drops_a_dealer_whose_ciphertexts_are_not_those_of_the_agreement(change, kind):
    liar = Liar(change, agreement=kind)
    assert "ciphertexts are not those of the agreement" in liar.outcome.dropped[LIAR]
    assert liar.shard.total_of(liar.outcome) == liar.shard.sum_of((1, 3, 4, 5, 6, 7))


def test_a_complaint_about_a_link_that_nobody_owed_is_not_taken():
    """Client 3 sends none to client 2, which says that it could not use it."""
    shard = Shard(5, colluders=1)
    digests = {}

    def request(step, client, data):
        if (step, client) == ("upload", VICTIM):
            digests.update({each.parcel.dealer: keys.parcel_digest(each.parcel) for each in read_request(data).parcels})
        return data

    def complain(upload):
        complaint = Complaint(VICTIM, 3, digests[3], bytes(64), unlinked=True)
        text = keys.complaint_text(bind(shard.terms, shard.roster, MODEL), complaint)
        return replace(upload, complaints=(replace(complaint, signature=sign(shard.signing[VICTIM], text)),))

    assert sends(shard.terms.members, VICTIM, 3)
    outcome = shard.run(request=request, reply=cheat("upload", TolerantUpload, complain))
    assert "did not have to send" in outcome.dropped[VICTIM]
    assert shard.total_of(outcome) == shard.sum_of((1, 3, 4, 5))


@pytest.mark.parametrize("field", ["channel_kem", "mask_kem"])
@pytest.mark.parametrize(("kind", "kem"), [(KINDS[0], b""), (KINDS[0], b"\xff" * 1184), (KINDS[1], bytes(1184))])
def test_keys_of_another_agreement_are_refused_by_members_and_dropped_by_the_server(field, kind, kem):
    shard = Shard(5, agreement=kind)
    outcome = shard.run(
        reply=cheat("advertise", Advertisement, lambda m: signed(shard, VICTIM, replace(m, **{field: kem})))
    )
    assert "ML-KEM" in outcome.dropped[VICTIM]
    shard.next_round()

    def swap(peers):
        other = signed(shard, 1, replace(peers.advertisements[0], **{field: kem}))
        return replace(peers, advertisements=(other, *peers.advertisements[1:]))

    shard.run(request=lie("share", swap))
    assert "ML-KEM" in shard.refusals[VICTIM]


def test_equal_mlkem_keys_are_refused():
    shard = Shard(5)

    def swap(peers):
        one, two, *rest = peers.advertisements
        return replace(peers, advertisements=(signed(shard, 1, replace(one, mask_kem=two.mask_kem)), two, *rest))

    shard.run(request=lie("share", swap))
    assert "two equal keys" in shard.refusals[VICTIM]
