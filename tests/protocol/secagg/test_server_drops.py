"""Malicious members: the server drops them, each for its reason, and goes on with the others."""

import hashlib

import pytest
from msgspec.structs import replace

from f2ed.protocol.primitives.crypto import sign
from f2ed.protocol.secagg.messages import Refused, Upload, read_reply, write
from f2ed.protocol.secagg.schemes.dropout_tolerant import dealing, keys
from f2ed.protocol.secagg.schemes.dropout_tolerant.messages import (
    Advertisement,
    Confirmation,
    Reveal,
    Shares,
    TolerantUpload,
)
from f2ed.protocol.secagg.terms import bind
from tests.protocol.secagg.adversary import LOW_ORDER, VICTIM, cheat, signed
from tests.protocol.secagg.shard_driver import MODEL, Shard


@pytest.mark.parametrize("step", ["advertise", "share", "upload", "confirm", "reveal"])
@pytest.mark.parametrize("junk", [b"", b"\x00", b"\xc1" * 50, b"\x93\xa6upload", write(Refused("no"))])
def test_the_server_drops_a_client_whose_message_is_malformed(step, junk):
    shard = Shard(5)
    outcome = shard.run(reply=lambda at, client, data: junk if (at, client) == (step, VICTIM) else data)
    assert set(outcome.dropped) == {VICTIM}
    assert outcome.reason is None
    assert shard.total_of(outcome) == shard.sum_of(outcome.survivors)
    assert (VICTIM in outcome.survivors) == (step in {"confirm", "reveal"})


@pytest.mark.parametrize(
    "change",
    [
        lambda s: replace(s, parcels=s.parcels[:-1]),
        lambda s: replace(s, parcels=(*s.parcels, s.parcels[-1])),
        lambda s: replace(s, parcels=s.parcels[::-1]),
        lambda s: replace(s, parcels=(replace(s.parcels[0], recipient=VICTIM), *s.parcels[1:])),
        lambda s: replace(s, parcels=(*s.parcels[:-1], replace(s.parcels[-1], recipient=99))),
    ],
)
def test_the_server_drops_a_client_whose_destinations_are_not_exactly_the_others(change):
    shard = Shard(5)
    outcome = shard.run(reply=cheat("share", Shares, change))
    assert "not addressed to exactly the other members" in outcome.dropped[VICTIM]
    assert outcome.survivors == (1, 3, 4, 5)
    assert shard.total_of(outcome) == shard.sum_of(outcome.survivors)


@pytest.mark.parametrize(
    ("step", "did", "takes"),
    [
        ("advertise", "advertised keys", 4),
        ("share", "shared their secrets", 4),
        ("upload", "uploaded", 4),
        ("confirm", "confirmed who is alive", 3),
        ("reveal", "revealed their shares", 3),
    ],
)
def test_the_server_stops_at_the_step_that_too_few_finished(step, did, takes):
    shard = Shard(5, min_crowd=4)
    reached = []

    def request(at, client, data):  # noqa: ARG001  all hooks have the same signature
        reached.append(at)
        return data

    outcome = shard.run(drop=lambda at, client: at == step and client >= takes, request=request)
    assert outcome.reason.startswith(f"{takes - 1} of 5 members {did}, and it takes {takes}; dropped: client ")
    assert reached[-1] == step


def test_the_server_drops_a_client_that_deals_in_the_name_of_another():
    shard = Shard(5)
    outcome = shard.run(
        reply=cheat("share", Shares, lambda s: replace(s, parcels=(replace(s.parcels[0], dealer=3), *s.parcels[1:])))
    )
    assert "in the name of another" in outcome.dropped[VICTIM]


@pytest.mark.parametrize("dealer", [1, 5])
def test_the_server_drops_a_client_whose_share_does_not_match_its_commitment(dealer):
    """Shares of a surviving peer's seed, and of a dropped peer's mask key."""
    shard = Shard(6)

    def wrong(reveal: Reveal):
        return replace(
            reveal, shares=tuple(replace(s, share=bytes(33)) if s.dealer == dealer else s for s in reveal.shares)
        )

    outcome = shard.run(
        drop=lambda step, client: client == 5 and step == "upload", reply=cheat("reveal", Reveal, wrong)
    )
    assert f"a share of client {dealer} that does not match its commitment" in outcome.dropped[VICTIM]
    assert outcome.survivors == (1, 2, 3, 4, 6)
    assert shard.total_of(outcome) == shard.sum_of(outcome.survivors)


def test_the_server_drops_a_client_whose_seed_does_not_match_its_commitment():
    shard = Shard(6)
    outcome = shard.run(reply=cheat("reveal", Reveal, lambda reveal: replace(reveal, seed=bytes(32))))
    assert "a seed that does not match its commitment" in outcome.dropped[VICTIM]
    assert shard.total_of(outcome) == shard.sum_of(shard.terms.members)


def test_the_server_drops_a_client_that_did_not_sign_its_parcels():
    shard = Shard(6)
    outcome = shard.run(reply=cheat("share", Shares, lambda shares: replace(shares, signature=bytes(64))))
    assert "shares: a signature that does not verify" in outcome.dropped[VICTIM]
    assert shard.total_of(outcome) == shard.sum_of((1, 3, 4, 5, 6))


@pytest.mark.parametrize(
    "change",
    [lambda r: replace(r, shares=r.shares[1:]), lambda r: replace(r, shares=(*r.shares, r.shares[-1]))],
)
def test_the_server_drops_a_client_that_does_not_reveal_exactly_one_share_per_dealer(change):
    shard = Shard(6)
    outcome = shard.run(reply=cheat("reveal", Reveal, change))
    assert outcome.dropped.keys() == {VICTIM}
    assert shard.total_of(outcome) == shard.sum_of(shard.terms.members)


@pytest.mark.parametrize("gone", ["upload", "reveal"])
def test_a_secret_that_cannot_be_rebuilt_closes_the_shard_with_its_reason(gone, monkeypatch):
    """A malicious dealer commits to shares that lie on no polynomial, which shows only when they are combined."""
    shard = Shard(6)
    honest = dealing._cut

    def crooked(phase, secret_, entropy, info):
        shares = honest(phase, secret_, entropy, info)
        liar = phase.advertisement.client == 4
        return [hashlib.sha256(each).digest() + b"\0" for each in shares] if liar else shares

    monkeypatch.setattr(dealing, "_cut", crooked)
    outcome = shard.run(drop=lambda step, client: (step, client) == (gone, 4))
    assert outcome.total is None
    assert outcome.reason.startswith("the secret of client 4 cannot be rebuilt")
    (blame,) = outcome.blame
    assert (blame.clients, blame.fault) == ((4,), "shares")


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda a: replace(a, signature=bytes(64)), "does not verify"),
        (lambda a: replace(a, client=3), "in the name of client 3"),
    ],
)
def test_the_server_drops_a_client_with_keys_that_are_not_its_own(change, why):
    shard = Shard(5)
    outcome = shard.run(reply=cheat("advertise", Advertisement, change))
    assert why in outcome.dropped[VICTIM]
    assert outcome.survivors == (1, 3, 4, 5)


def test_the_server_drops_a_client_that_copies_a_key():
    shard = Shard(5)
    seen = {}

    def copy(step, client, data):
        if step == "advertise":
            seen[client] = read_reply(Advertisement, data)
            if client == VICTIM:
                return write(signed(shard, VICTIM, replace(seen[VICTIM], mask=seen[1].mask)))
        return data

    assert "occurs twice in the shard" in shard.run(reply=copy).dropped[VICTIM]


@pytest.mark.parametrize("field", ["channel", "mask"])
def test_the_server_drops_a_client_with_a_key_of_small_order_before_anybody_has_to_refuse_it(field):
    shard = Shard(5)
    outcome = shard.run(
        reply=cheat("advertise", Advertisement, lambda a: signed(shard, VICTIM, replace(a, **{field: LOW_ORDER})))
    )
    assert "small order" in outcome.dropped[VICTIM]
    assert not shard.refusals
    assert outcome.survivors == (1, 3, 4, 5)


def test_the_server_drops_a_confirmation_of_another_list():
    shard = Shard(5)
    text = keys.alive_text(bind(shard.terms, shard.roster, MODEL), bytes(32), (1, 2, 3))

    def other(confirmation):
        return replace(confirmation, signature=sign(shard.signing[VICTIM], text))

    outcome = shard.run(reply=cheat("confirm", Confirmation, other))
    assert "does not verify" in outcome.dropped[VICTIM]
    assert shard.total_of(outcome) == shard.sum_of(shard.terms.members)
    shard.next_round()
    outcome = shard.run(reply=cheat("confirm", Confirmation, lambda c: replace(c, client=3)))
    assert "in the name of client 3" in outcome.dropped[VICTIM]


@pytest.mark.parametrize("mode", ["all-or-nothing", "dropout-tolerant"])
@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda u: replace(u, payload=u.payload[:-1]), "an upload of 79 bytes"),
        (lambda u: replace(u, payload=bytes(u.payload) + b"\0"), "an upload of 81 bytes"),
        (lambda u: replace(u, payload=memoryview(b"")), "an upload of 0 bytes"),
        (lambda u: replace(u, tag=bytes(8)), "another context"),
    ],
)
def test_the_server_drops_an_upload_of_another_size_or_context(mode, change, why):
    shard = Shard(5, mode)
    kind = Upload if mode == "all-or-nothing" else TolerantUpload
    outcome = shard.run(reply=cheat("upload", kind, change))
    assert why in outcome.dropped[VICTIM]
    assert (outcome.total is None) == (mode == "all-or-nothing")
