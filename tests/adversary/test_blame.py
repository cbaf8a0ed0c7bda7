"""Garbage parcels: the dealer is named by evidence that others can check, and no honest recipient is lost."""

import hashlib

import msgspec
import pytest
from msgspec.structs import replace

from f2ed import PeerError
from f2ed.protocol.primitives.crypto import sign
from f2ed.protocol.secagg.blame import Blame, guilty
from f2ed.protocol.secagg.messages import read_reply, write
from f2ed.protocol.secagg.schemes import read_request
from f2ed.protocol.secagg.schemes.dropout_tolerant import dealing, keys, merkle
from f2ed.protocol.secagg.schemes.dropout_tolerant.evidence import check_blame
from f2ed.protocol.secagg.schemes.dropout_tolerant.messages import (
    Advertisement,
    Complaint,
    Delivery,
    Reveal,
    Shares,
    TolerantUpload,
)
from f2ed.protocol.secagg.state import store
from f2ed.protocol.secagg.terms import bind
from tests.protocol.secagg.shard_driver import MODEL, Shard, load

DEALER = 4


class Fight:
    """A shard in which some members deal garbage and some complain about nothing."""

    def __init__(self, size, *, garbage=(), false=(), field="sealed", gone=(), **changes):
        self.shard = Shard(size, **changes)
        self.advertised, self.parcels, self.revealed = {}, {}, {}
        self.garbage, self.false, self.field = dict(garbage), dict(false), field
        self.outcome = self.shard.run(
            reply=self._reply, request=self._request, drop=lambda step, client: (step, client) in gone
        )

    def _request(self, step, client, data):
        if step == "upload":
            self.parcels[client] = {each.parcel.dealer: each.parcel for each in read_request(data).parcels}
        return data

    def _reply(self, step, client, data):
        if step == "advertise":
            self.advertised[client] = read_reply(Advertisement, data)
        if step == "share" and client in self.garbage:
            return write(self._deal_garbage(client, read_reply(Shares, data)))
        if step == "upload" and client in self.false:
            return write(self._complain(client, read_reply(TolerantUpload, data, payload=10**6)))
        if step == "reveal":
            reveal = read_reply(Reveal, data)
            kept = tuple(each for each in reveal.shares if each.dealer not in self.false.get(client, ()))
            self.revealed[client] = reveal = replace(reveal, shares=kept)
            return write(reveal)
        return data

    def _deal_garbage(self, dealer, shares):
        """Spoil the parcels to some recipients and sign all of them as they are."""
        context = bind(self.shard.terms, self.shard.roster, MODEL)
        parcels = tuple(
            replace(each, **{self.field: bytes(len(getattr(each, self.field)))})
            if each.recipient in self.garbage[dealer]
            else each
            for each in shares.parcels
        )
        root = merkle.root_of([keys.parcel_digest(each) for each in parcels])
        everyone = keys.advertised_digest(each for _, each in sorted(self.advertised.items()))
        signature = sign(self.shard.signing[dealer], keys.parcels_text(context, dealer, everyone, root))
        state = load(self.shard.states[dealer], "test")
        self.shard.states[dealer] = store(replace(state, phase=replace(state.phase, dealt=(root, signature))))
        return Shares(parcels, signature)

    def _complain(self, client, upload):
        context = bind(self.shard.terms, self.shard.roster, MODEL)
        complaints = []
        for dealer in self.false[client]:
            complaint = Complaint(client, dealer, keys.parcel_digest(self.parcels[client][dealer]), bytes(64))
            signature = sign(self.shard.signing[client], keys.complaint_text(context, complaint))
            complaints.append(replace(complaint, signature=signature))
        return replace(upload, complaints=tuple(complaints))

    def check(self, blame):
        check_blame(blame, self.shard.terms, self.shard.roster)

    def opens_exactly(self):
        return self.shard.total_of(self.outcome) == self.shard.sum_of(self.outcome.survivors)


@pytest.mark.parametrize("number", [2, 5, 6, 10])
@pytest.mark.parametrize("field", ["sealed", "mask", "seed"])
def test_a_dealer_of_garbage_is_convicted_and_no_recipient_is_lost(number, field):
    """The known attack with five or six garbage parcels in a shard of eleven, which used to evict the recipients."""
    others = [client for client in range(1, 12) if client != DEALER][:number]
    fight = Fight(11, garbage={DEALER: others}, field=field, colluders=1)
    assert fight.outcome.survivors == fight.shard.terms.members
    assert fight.opens_exactly()
    assert fight.outcome.dropped.keys() == {DEALER}
    assert not fight.shard.refusals
    (blame,) = fight.outcome.blame
    assert (blame.clients, blame.fault, len(blame.evidence)) == ((DEALER,), "disputes", number)
    fight.check(blame)


def test_one_garbage_parcel_is_a_dispute_in_which_nobody_is_convicted():
    fight = Fight(7, garbage={DEALER: [1]}, colluders=1)
    assert fight.opens_exactly()
    assert not fight.outcome.dropped
    (blame,) = fight.outcome.blame
    assert (blame.clients, blame.fault) == ((1, DEALER), "disputed")
    fight.check(blame)


def test_two_dealers_of_garbage_are_convicted_and_not_those_who_complain_about_both():
    everyone = range(1, 12)
    fight = Fight(11, garbage={4: [c for c in everyone if c != 4], 7: [c for c in everyone if c != 7]}, colluders=1)
    assert fight.outcome.dropped.keys() == {4, 7}
    assert fight.outcome.survivors == fight.shard.terms.members
    assert fight.opens_exactly()


@pytest.mark.parametrize("size", [7, 11])
def test_as_many_false_complaints_as_may_collude_convict_nobody(size):
    fight = Fight(size, false={1: [DEALER], 2: [DEALER]}, colluders=2)
    assert not fight.outcome.dropped
    assert fight.opens_exactly()
    assert [blame.fault for blame in fight.outcome.blame] == ["disputed", "disputed"]


def test_false_complaints_by_one_more_than_may_collude_cost_the_dealer_no_secret():
    """Beyond the stated colluders an honest dealer is named; its update stays in the sum, and no share is opened."""
    fight = Fight(11, false={1: [DEALER], 2: [DEALER], 3: [DEALER]}, colluders=2)
    assert fight.outcome.dropped.keys() == {DEALER}
    assert DEALER in fight.outcome.survivors
    assert fight.opens_exactly()


def test_a_member_that_complains_about_many_is_guilty_itself():
    fight = Fight(9, false={1: [2, 3, 5]}, colluders=2)
    assert fight.outcome.dropped.keys() == {1}
    assert fight.opens_exactly()
    (blame,) = fight.outcome.blame
    assert blame.clients == (1,)
    fight.check(blame)


def test_a_complaint_opens_no_share_and_no_key():
    """What the server gets for a complaint is a digest that it knew, and one share less."""
    quiet, loud = Fight(7, colluders=1), Fight(7, false={1: [DEALER]}, colluders=1)
    assert [each.dealer for each in quiet.revealed[1].shares] == [2, 3, 4, 5, 6, 7]
    assert [each.dealer for each in loud.revealed[1].shares] == [2, 3, 5, 6, 7]
    assert all(quiet.revealed[client] == loud.revealed[client] for client in (2, 3, 4, 5, 6, 7))


def test_a_dealer_that_spoils_most_shares_and_vanishes_closes_its_shard_by_name():
    fight = Fight(7, garbage={DEALER: [1, 2, 3, 5, 6]}, gone={("upload", DEALER)}, colluders=1)
    assert fight.outcome.total is None
    assert f"the secret of client {DEALER} cannot be rebuilt: 1 members revealed a share" in fight.outcome.reason
    assert fight.outcome.blame[0].clients == (DEALER,)
    fight.check(fight.outcome.blame[0])


def test_a_dealer_that_spoils_few_shares_and_vanishes_does_not_close_it():
    fight = Fight(7, garbage={DEALER: [1]}, gone={("upload", DEALER)}, colluders=1)
    assert fight.outcome.survivors == (1, 2, 3, 5, 6, 7)
    assert fight.opens_exactly()


def test_a_server_that_corrupts_parcels_can_blame_nobody():
    """The dealer signed other bytes, so each recipient leaves and names the server; nobody complains."""
    shard = Shard(7, colluders=1)

    def corrupt(step, client, data):
        if step != "upload" or client > 2:
            return data
        first, *rest = read_request(data).parcels
        return write(Delivery((replace(first, parcel=replace(first.parcel, sealed=bytes(82))), *rest)))

    outcome = shard.run(request=corrupt)
    assert shard.refusals.keys() == {1, 2}
    assert all("is not as its dealer signed it" in why for why in shard.refusals.values())
    assert outcome.blame == ()


CHANGES = {
    "in another's name": lambda each: replace(each, client=3),
    "about itself": lambda each: replace(each, dealer=1),
    "about a stranger": lambda each: replace(each, dealer=99),
    "about another parcel": lambda each: replace(each, parcel=bytes(32)),
    "not signed": lambda each: replace(each, signature=bytes(64)),
}


@pytest.mark.parametrize("change", CHANGES)
def test_the_server_takes_no_complaint_that_proves_nothing(change, monkeypatch):
    honest = Fight._complain
    monkeypatch.setattr(
        Fight,
        "_complain",
        lambda self, client, upload: replace(
            (sent := honest(self, client, upload)), complaints=tuple(CHANGES[change](each) for each in sent.complaints)
        ),
    )
    fight = Fight(7, false={1: [DEALER]}, colluders=1)
    assert fight.outcome.dropped.keys() == {1}
    assert fight.outcome.blame == ()
    assert fight.opens_exactly()


def test_the_server_takes_no_complaint_twice(monkeypatch):
    honest = Fight._complain
    monkeypatch.setattr(
        Fight,
        "_complain",
        lambda self, client, upload: replace(
            (sent := honest(self, client, upload)), complaints=sent.complaints + sent.complaints
        ),
    )
    assert "names one twice" in Fight(7, false={1: [DEALER]}, colluders=1).outcome.dropped[1]


def test_evidence_survives_a_file_and_nothing_else_passes_for_it():
    fight = Fight(9, garbage={DEALER: [1, 2, 3]}, colluders=2)
    (blame,) = fight.outcome.blame
    assert msgspec.json.decode(msgspec.json.encode(blame), type=Blame) == blame
    first, *rest = blame.evidence
    for wrong in (
        replace(blame, clients=(5,)),
        replace(blame, context=bytes(32)),
        replace(blame, advertised=bytes(32)),
        replace(blame, evidence=blame.evidence[:2]),
        replace(blame, evidence=(first, first, first)),
        replace(blame, evidence=(replace(first, signature=bytes(64)), *rest)),
        replace(blame, evidence=(replace(first, dealt=bytes(64)), *rest)),
        replace(blame, evidence=(replace(first, client=6), *rest)),
        replace(blame, evidence=(replace(first, path=first.path[1:]), *rest)),
    ):
        with pytest.raises(PeerError):
            fight.check(wrong)


@pytest.fixture
def crooked(monkeypatch):
    """Let one dealer commit to shares that lie on no polynomial."""
    honest = dealing._cut

    def cut(phase, secret, entropy, info):
        shares = honest(phase, secret, entropy, info)
        liar = phase.advertisement.client == DEALER
        return [hashlib.sha256(each).digest() + b"\0" for each in shares] if liar else shares

    monkeypatch.setattr(dealing, "_cut", cut)


@pytest.mark.usefixtures("crooked")
@pytest.mark.parametrize("step", ["upload", "reveal"])
def test_shares_of_no_secret_are_evidence_by_themselves(step):
    fight = Fight(7, gone={(step, DEALER)}, colluders=1)
    assert fight.outcome.total is None
    (blame,) = fight.outcome.blame
    assert (blame.clients, blame.fault) == ((DEALER,), "shares")
    fight.check(blame)
    first, *rest = blame.evidence
    for wrong in (
        replace(blame, clients=(5,)),
        replace(blame, dealt=bytes(64)),
        replace(blame, evidence=tuple(rest)),
        replace(blame, evidence=(rest[0], *rest)),
        replace(blame, evidence=(replace(first, share=bytes(33)), *rest)),
        replace(blame, evidence=(replace(first, recipient=DEALER), *rest)),
        replace(blame, evidence=(replace(first, recipient=99), *rest)),
        replace(blame, advertisement=b""),
        replace(blame, clients=(DEALER, 5)),
    ):
        with pytest.raises(PeerError):
            fight.check(wrong)


@pytest.mark.usefixtures("crooked")
def test_shares_of_no_secret_do_no_harm_while_their_dealer_stays():
    fight = Fight(7, colluders=1)
    assert fight.opens_exactly()


def test_good_shares_are_evidence_of_nothing(monkeypatch):
    """The shares of an honest dealer that dropped, shown as if they did not fit."""
    made = []
    honest = keys.matches

    def doubt(context, advertised, number, *, alive, kind):
        made.append(honest(context, advertised, number, alive=alive, kind=kind))
        return b""

    with monkeypatch.context() as patched:
        patched.setattr(keys, "matches", doubt)
        fight = Fight(7, gone={("upload", DEALER)}, colluders=1)
    assert len(made[0]) == 32
    with pytest.raises(PeerError, match="rebuild the secret that it committed to"):
        fight.check(fight.outcome.blame[0])


@pytest.mark.parametrize(
    ("disputes", "colluders", "found"),
    [
        ([], 1, set()),
        ([(1, 2)], 0, set()),  # One has two sides.
        ([(1, 2), (3, 2)], 0, {2}),
        ([(1, 2), (3, 2)], 1, {2}),
        ([(1, 2), (3, 2)], 2, set()),
        ([(1, 2), (1, 3), (1, 4)], 2, {1}),
        ([(1, 2), (3, 1), (1, 4)], 2, {1}),  # As dealer and as recipient.
        ([(1, 2), (1, 2), (1, 2)], 1, set()),  # The same one again.
        ([(1, 8), (1, 9), (2, 8), (2, 9)], 1, set()),  # Nobody can tell which two.
        ([(i, j) for i in range(5) for j in (8, 9)], 1, {8, 9}),
        ([(1, 2), (1, 3), (2, 4)], 1, set()),  # Both are in dispute with one other beside each other.
    ],
)
def test_who_is_in_dispute_with_more_than_may_collude_is_guilty(disputes, colluders, found):
    assert guilty(disputes, colluders).keys() == found


def test_no_honest_member_is_convicted_by_any_c_liars():
    """Every set of disputes that one liar among five, or two among six, can make: only liars are convicted."""
    for size, liars in ((5, (0,)), (6, (0, 1))):
        pairs = [(i, j) for i in range(size) for j in range(size) if i != j and (i in liars or j in liars) and i < j]
        for bits in range(2 ** len(pairs)):
            disputes = [pair for at, pair in enumerate(pairs) if bits >> at & 1]
            assert guilty(disputes, len(liars)).keys() <= set(liars)
