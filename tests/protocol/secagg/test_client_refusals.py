"""A lying server: each lie about keys, steps and rounds ends in the refusal that it is meant to end in."""

import msgspec
import pytest
from msgspec.structs import replace

from f2ed.protocol.primitives.crypto import ExchangeKey
from f2ed.protocol.secagg.messages import Refused, Upload, read_reply, write
from f2ed.protocol.secagg.schemes import read_request
from f2ed.protocol.secagg.schemes.dropout_tolerant.messages import (
    Advertisement,
    Alive,
    Delivery,
    Invite,
    Peers,
    Reveal,
)
from tests.protocol.secagg.adversary import LOW_ORDER, VICTIM, assert_refused, lie, signed
from tests.protocol.secagg.shard_driver import Shard, load, secret


@pytest.mark.parametrize("field", ["channel", "mask", "commitment", "signature"])
def test_a_client_refuses_keys_with_a_bad_signature(field):
    shard = Shard(5)

    def substitute(peers: Peers):
        first, *rest = peers.advertisements
        value = getattr(first, field)
        return Peers((replace(first, **{field: value[:-1] + bytes([value[-1] ^ 1])}), *rest))

    outcome = shard.run(request=lie("share", substitute))
    assert_refused(shard, outcome, "the keys of client 1 come with a signature that does not verify")


def test_a_client_refuses_its_own_key_absent():
    shard = Shard(6)
    outcome = shard.run(
        request=lie("share", lambda peers: Peers(tuple(a for a in peers.advertisements if a.client != VICTIM)))
    )
    assert_refused(shard, outcome, "own keys are absent or were replaced")


def test_a_client_refuses_its_own_key_replaced_even_by_one_it_signed():
    shard = Shard(5)

    def substitute(peers: Peers):
        other = ExchangeKey(secret("server's own")).public
        return Peers(
            tuple(
                signed(shard, VICTIM, replace(a, mask=other)) if a.client == VICTIM else a for a in peers.advertisements
            )
        )

    assert_refused(shard, shard.run(request=lie("share", substitute)), "own keys are absent or were replaced")


def test_a_client_refuses_a_key_twice():
    shard = Shard(5)
    outcome = shard.run(request=lie("share", lambda p: Peers((*p.advertisements[:2], *p.advertisements[1:]))))
    assert_refused(shard, outcome, "a list of keys that names one twice")


@pytest.mark.parametrize("field", ["channel", "mask"])
def test_a_client_refuses_two_equal_keys(field):
    """Member 4, an accomplice, signs the key of member 1 as its own."""
    shard = Shard(5)

    def copy(peers: Peers):
        first = peers.advertisements[0]
        return Peers(
            tuple(
                signed(shard, 4, replace(a, **{field: getattr(first, field)})) if a.client == 4 else a
                for a in peers.advertisements
            )
        )

    assert_refused(shard, shard.run(request=lie("share", copy)), "two equal keys")


def test_a_client_refuses_the_keys_of_a_stranger():
    shard = Shard(5)
    stranger = Advertisement(9, bytes(32), b"\x01" * 32, b"", b"", bytes(32), bytes(64))
    outcome = shard.run(request=lie("share", lambda peers: Peers((*peers.advertisements, stranger))))
    assert_refused(shard, outcome, "client 9, which is not a member")


@pytest.mark.parametrize(
    ("step", "cut", "why"),
    [
        ("share", lambda m: Peers(m.advertisements[:3]), "3 members advertised; this round needs 4"),
        ("upload", lambda m: Delivery(m.parcels[:2]), "3 members shared; this round needs 4"),
        ("confirm", lambda m: Alive(m.clients[:3]), "3 members are alive; this round needs 4"),
    ],
)
def test_a_client_refuses_too_few_members_at_any_step(step, cut, why):
    shard = Shard(6)
    assert_refused(shard, shard.run(request=lie(step, cut)), why)


def test_a_client_refuses_survivors_who_never_shared():
    """Member 6 drops before sharing; the server then claims that it uploaded."""
    shard = Shard(6)
    outcome = shard.run(
        drop=lambda step, client: client == 6 and step == "share",
        request=lie("confirm", lambda alive: Alive((*alive.clients, 6))),
    )
    assert_refused(shard, outcome, "client 6 is listed as alive but never shared")


def test_a_client_refuses_to_be_called_dropped():
    shard = Shard(6)
    outcome = shard.run(
        request=lie("confirm", lambda alive: Alive(tuple(c for c in alive.clients if c != VICTIM))),
    )
    assert_refused(shard, outcome, "this client is listed as dropped")


@pytest.mark.parametrize("at", ["share", "upload", "confirm", "reveal"])
def test_a_client_refuses_a_step_twice(at):
    shard = Shard(6)

    def twice(step, client, data):
        if (step, client) == (at, VICTIM):
            shard.respond(client, data)
        return data

    outcome = shard.run(request=twice)
    assert "out of order or twice" in shard.refusals[VICTIM]
    assert VICTIM in outcome.dropped


def test_a_client_refuses_every_step_out_of_order():
    """Every request at every point but its own is refused, and the state afterwards holds no secret of the round."""
    recorded: dict[str, bytes] = {}
    states: dict[str, bytes] = {}
    shard = Shard(3)

    def record(step, client, data):
        if client == VICTIM:
            recorded[step], states[step] = data, shard.states[client]
        return data

    shard.run(request=record)
    steps = list(recorded)
    for right in steps:
        for wrong in steps:
            if wrong in {right, "advertise"}:
                continue
            shard.states[VICTIM] = states[right]
            shard.refusals.clear()
            shard.respond(VICTIM, recorded[wrong])
            assert "out of order or twice" in shard.refusals[VICTIM], (right, wrong)
            assert load(shard.states[VICTIM], "test").phase is None


def test_nobody_can_be_both_alive_and_dropped():
    """The message has one list, and clients that are not on it are dropped; a client listed twice is refused."""
    assert Alive.__struct_fields__ == ("clients",)
    shard = Shard(6)
    outcome = shard.run(request=lie("confirm", lambda alive: Alive((*alive.clients, alive.clients[-1]))))
    assert_refused(shard, outcome, "a list of survivors that names one twice")


def test_a_client_reveals_exactly_one_share_per_dealer():
    shard, revealed = Shard(6), {}

    def record(step, client, data):
        if step == "reveal":
            revealed[client] = read_reply(Reveal, data)
        return data

    phases = {}

    def states(step, client, data):
        phases[step, client] = load(shard.states[client], "test").phase
        return data

    shard.run(drop=lambda step, client: client == 5 and step == "upload", reply=record, request=states)
    held = {each.dealer: each for each in phases["confirm", VICTIM].held}
    for share in revealed[VICTIM].shares:
        if share.dealer == 5:
            assert share.share == held[5].mask
        else:
            assert share.share == held[share.dealer].seed
    assert [share.dealer for share in revealed[VICTIM].shares] == [1, 3, 4, 5, 6]
    assert revealed[VICTIM].seed == phases["confirm", VICTIM].seed


def test_a_client_refuses_a_second_unmask_request_in_the_same_round():
    """The server asks again with a smaller list of survivors, to subtract one sum from the other."""
    shard = Shard(6, threshold=5, min_crowd=5)
    asked = {}

    def record(step, client, data):
        asked[step, client] = data
        return data

    assert shard.run(request=record).reason is None
    for again in (Alive((1, 2, 3, 4, 5)), Alive((1, 2, 3, 4, 5, 6)), read_request(asked["reveal", VICTIM])):
        shard.respond(VICTIM, write(again))
        assert "out of order or twice; this client is at: not in a round" in shard.refusals[VICTIM]


@pytest.mark.parametrize("field", ["channel", "mask"])
def test_a_client_refuses_an_all_zero_agreement(field):
    """A member signs a key of small order, and the server passes it on."""
    shard = Shard(5)
    sent = {c: read_reply(Advertisement, shard.respond(c, write(Invite(shard.terms)))) for c in shard.members}
    sent[4] = signed(shard, 4, replace(sent[4], **{field: LOW_ORDER}))
    shard.respond(VICTIM, write(Peers(tuple(sent.values()))))
    assert "all zero" in shard.refusals[VICTIM]


def test_a_client_refuses_to_begin_a_round_again_or_an_earlier_one():
    for mode in ("dropout-tolerant", "all-or-nothing", "clear"):
        shard = Shard(4, mode, round=5, member={"clear": True})
        shard.run()
        for number in (5, 4):
            outcome = shard.run(terms=replace(shard.terms, round=number))
            assert outcome.total is None
            assert "a round is never begun twice" in shard.refusals[VICTIM]


def test_a_client_refuses_to_go_back_to_an_earlier_epoch():
    shard = Shard(4, "all-or-nothing", epoch=3)
    shard.run()
    shard.keys = None
    shard.run(terms=replace(shard.terms, epoch=2, round=9))
    assert "a key of epoch 2, round 9; epoch 3, round 0 was begun" in shard.refusals[VICTIM]


def test_two_uploads_under_the_same_masks_cannot_be_had():
    """The leak behind the high-water mark: the difference of two such uploads is that of the updates."""
    shard = Shard(4, "all-or-nothing")
    asked = {}
    shard.run(request=lambda step, client, data: asked.setdefault((step, client), data))
    first = shard.uploads[VICTIM]
    shard.vectors[VICTIM] += 1
    reply = shard.respond(VICTIM, asked["upload", VICTIM])
    with pytest.raises(msgspec.ValidationError):
        msgspec.msgpack.decode(reply, type=Upload)
    assert msgspec.msgpack.decode(reply, type=Refused).reason
    assert reply != first
