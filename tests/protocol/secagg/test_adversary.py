"""A lying server and malicious members: each lie ends in the refusal or the drop that it is meant to end in.

One test per line of what a client refuses and of what makes the server drop a client, and the attacks that are
known from the literature.
"""

import hashlib
from math import inf

import msgspec
import numpy as np
import pytest
from msgspec.structs import replace

from f2ed.core.errors import ConfigError, PeerError, Refusal
from f2ed.protocol.primitives.crypto import exchange_key, sign
from f2ed.protocol.secagg import Member, secure_sum, signing_key
from f2ed.protocol.secagg.client import step as take_step
from f2ed.protocol.secagg.keys import epoch_key_text
from f2ed.protocol.secagg.member import Local
from f2ed.protocol.secagg.messages import AskKey, AskUpload, Refused, SignedKey, Upload, read_reply, write
from f2ed.protocol.secagg.schemes import read_request
from f2ed.protocol.secagg.schemes.dropout_tolerant import client as round_client
from f2ed.protocol.secagg.schemes.dropout_tolerant import keys
from f2ed.protocol.secagg.schemes.dropout_tolerant.messages import (
    Advertisement,
    Alive,
    Confirmation,
    Confirmations,
    Delivery,
    Invite,
    Peers,
    Reveal,
    Shares,
)
from f2ed.protocol.secagg.terms import bind, bind_epoch
from f2ed.protocol.sharding import assign_shards
from tests.protocol.secagg.shard_driver import MODEL, Shard, load, make_terms, secret

VICTIM = 2
LOW_ORDER = bytes(32)


def lie(at, change, to=VICTIM):
    """Return a hook that rewrites the request of one step to one client."""

    def request(step, client, data):
        return write(change(read_request(data))) if (step, client) == (at, to) else data

    return request


def cheat(at, kind, change, by=VICTIM):
    """Return a hook that rewrites the reply of one client at one step."""

    def reply(step, client, data):
        return write(change(read_reply(kind, data, payload=10**6))) if (step, client) == (at, by) else data

    return reply


def assert_refused(shard, outcome, why, victim=VICTIM):
    """The victim refused for the right reason, the server was told, and nobody else stopped."""
    assert why in shard.refusals[victim]
    assert shard.refusals.keys() == {victim}
    assert "it refused" in outcome.dropped[victim]
    assert load(shard.states[victim], "test").phase is None


def signed(shard, client, message, context=None):
    """Sign an advertisement as the client itself would."""
    context = context or bind(shard.terms, shard.roster, MODEL)
    return replace(message, signature=sign(shard.signing[client], keys.advertisement_text(context, message)))


# The client refuses …


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
        other = exchange_key(secret("server's own"))
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
    stranger = Advertisement(9, bytes(32), b"\x01" * 32, bytes(32), bytes(64))
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
    """The message has one list, whoever is not on it is dropped; a name that is on it twice is refused."""
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
        elif share.dealer != VICTIM:
            assert share.share == held[share.dealer].seed
    assert [share.dealer for share in revealed[VICTIM].shares] == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize("consistent", [True, False])
def test_a_client_refuses_a_second_unmask_request_in_the_same_round(consistent):
    """The server asks again with a smaller list of survivors, to subtract one sum from the other."""
    shard = Shard(6, threshold=5, min_crowd=5, consistent=consistent)
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
    """A member signs a key of small order for the victim alone, and the server passes it on."""
    shard = Shard(5)

    def weaken(peers: Peers):
        return Peers(
            tuple(
                signed(shard, 4, replace(a, **{field: LOW_ORDER})) if a.client == 4 else a for a in peers.advertisements
            )
        )

    assert_refused(shard, shard.run(request=lie("share", weaken)), "all zero")


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
    shard.keys = ()
    shard.run(terms=replace(shard.terms, epoch=2, round=9))
    assert "a key of epoch 2; epoch 3 has begun" in shard.refusals[VICTIM]


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


TERMS = [
    pytest.param({"threshold": 3}, {}, "a threshold of 3 for 6 members", id="threshold too low"),
    pytest.param({"colluders": 1, "threshold": 3}, {}, "a threshold of 3", id="threshold too low for colluders"),
    pytest.param({"min_crowd": 3}, {}, "sums of 3 may be opened", id="sums smaller than the threshold"),
    pytest.param({"min_crowd": 7}, {}, "sums of 7", id="more survivors than members"),
    pytest.param({"consistent": False}, {}, "the consistency step is skipped", id="no consistency"),
    pytest.param({"bits": 31}, {}, "overflow a 32-bit sum; use at most 29 bits", id="overflow"),
    pytest.param({"members": (2, 1, 3, 4, 5, 6)}, {}, "in ascending order", id="members out of order"),
    pytest.param({"members": (1, 2, 2, 4, 5, 6)}, {}, "in ascending order", id="member twice"),
    pytest.param({"weights": (1, 2)}, {}, "2 weights for 6 members", id="weights missing"),
    pytest.param({"weights": (1, 2, 3, 4, 5, 9), "weight_cap": 5}, {}, "above the cap of 5", id="weight above its cap"),
    pytest.param({"weight_cap": 5}, {}, "without weights", id="cap without weights"),
    pytest.param(
        {"weights": (9, 1, 1, 1, 1, 1), "weight_cap": 9},
        {},
        "of weight 9 may be opened with honest others whose weights sum to 3",
        id="one outweighs those it hides among",
    ),
    pytest.param(
        {"weights": (3, 1, 1, 1, 1, 1), "weight_cap": 3, "colluders": 1},
        {},
        "honest others whose weights sum to 2",
        id="one outweighs those it hides among, when one of them colludes",
    ),
    pytest.param({"job": "another"}, {}, "an invitation to job 'another'", id="another job"),
    pytest.param({"members": (1, 3, 4, 5, 6, 7)}, {}, "is not among the members", id="not a member"),
    pytest.param({"members": (1, 2, 3, 4, 5, 99)}, {}, "client 99 is not on the roster", id="stranger"),
    pytest.param({}, {"colluders": 1}, "allow for 0 colluders; this client demands 1", id="too few colluders"),
    pytest.param(
        {}, {"min_crowd": 5}, "sums of 4 may be opened; this client demands a crowd of 5", id="crowd too small"
    ),
    pytest.param({"mode": "clear"}, {}, "mode 'clear'", id="another mode"),
    pytest.param({}, {"noise": 1.0}, "noise of 0 times the clip; this client demands 1", id="no noise"),
    pytest.param({"noise": 0.9, "carriers": 4}, {"noise": 1.0}, "noise of 0.9 times", id="noise lowered"),
    pytest.param({"noise": 1.0, "clip_norm": inf}, {}, "noise without an L2 clip", id="noise without a clip"),
    pytest.param({"carriers": 2}, {}, "2 members to carry noise, and no noise", id="carriers of nothing"),
    pytest.param(
        {"noise": 1.0, "carriers": 5},
        {"noise": 1.0},
        "noise that takes 5 members, and a sum of 4",
        id="noise that drop-outs would take away",
    ),
    pytest.param(
        {"noise": 1.0, "carriers": 5, "mode": "dropout-tolerant", "colluders": 1, "min_crowd": 5},
        {},
        "with 1 colluders may be opened; let at most 4 carry it",
        id="noise that colluders would leave out",
    ),
]


@pytest.mark.parametrize(("changes", "policy", "why"), TERMS)
def test_a_client_refuses_terms_that_could_single_it_out(changes, policy, why):
    shard = Shard(7, member=policy)
    terms = replace(make_terms(range(1, 7)), **changes)
    shard.respond(VICTIM, write(Invite(terms)))
    assert why in shard.refusals[VICTIM]


@pytest.mark.parametrize(
    "request_of", [AskKey, lambda terms: AskUpload(terms, ()), Invite], ids=["key", "upload", "invite"]
)
def test_a_client_agrees_to_no_step_of_a_round_in_another_job(request_of):
    shard = Shard(5, "dropout-tolerant" if request_of is Invite else "all-or-nothing")
    answer = shard.respond(VICTIM, write(request_of(replace(shard.terms, job="another"))))
    with pytest.raises(PeerError, match="an invitation to job 'another'"):
        read_reply(SignedKey, answer)
    assert load(shard.states[VICTIM], "test").key is None


def test_a_server_that_told_others_of_less_noise_opens_nothing():
    """The noise is bound: a member that was told of more derives other masks, and its upload another context."""
    shard = Shard(4, "all-or-nothing", noise=1.0, carriers=4)
    honest = shard.terms

    def lie(step, client, data):
        if step == "upload" and client == VICTIM:
            asked = read_request(data)
            return write(replace(asked, terms=replace(honest, noise=2.0)))
        return data

    outcome = shard.run(request=lie)
    assert outcome.total is None
    assert "another context" in outcome.dropped[VICTIM]


def test_a_client_refuses_a_request_of_one_mode_with_terms_of_another():
    shard = Shard(4, member={"clear": True})
    tolerant = make_terms(range(1, 5))
    for request in (AskKey(tolerant), AskUpload(tolerant, ()), Invite(make_terms(range(1, 5), "all-or-nothing"))):
        shard.respond(VICTIM, write(request))
        assert "terms of mode" in shard.refusals[VICTIM]


def test_a_client_refuses_to_upload_in_the_clear():
    shard = Shard(4, "clear")
    assert shard.run().reason == "no member uploaded"
    assert "only takes part in masked sums" in shard.refusals[VICTIM]


def test_a_victim_dealt_among_accomplices_refuses():
    """The server deals the victim with members of its choice instead of those of the public deal."""
    roster = {i: signing_key(secret(0, "identity", i)) for i in range(1, 13)}
    plan = assign_shards(roster, shards=3, epoch=0, seed=b"drawn by all")
    mine = plan.shards[plan.shard_of(VICTIM)]
    member = Member(
        id=VICTIM, signing_key=secret(0, "identity", VICTIM), roster=roster, job="test", shard=lambda _: mine
    )
    local = Local(MODEL, np.zeros, bytes(32))
    accomplices = tuple(sorted({VICTIM, *(i for i in roster if i not in mine)}))[: len(mine)]
    assert VICTIM in accomplices
    with pytest.raises(Refusal, match="not those that the roster, the round and the seed assign"):
        take_step(Invite(make_terms(accomplices)), load(b"", "test"), member, local)
    take_step(Invite(make_terms(mine)), load(b"", "test"), member, local)


def test_a_budget_ends_differencing_by_drop_outs():
    """Each round another member is called dropped; after its budget of two sets the client lets nobody open more."""
    shard = Shard(6, member={"subsets": 2})
    outcomes = []
    for gone in (6, 5, 6, 4, 5):
        outcomes.append(shard.run(drop=lambda step, client: client == gone and step == "upload"))  # noqa: B023
        shard.next_round()
    assert [outcome.reason is None for outcome in outcomes] == [True, True, True, False, True]
    assert "opened in 2 different sets" in shard.refusals[VICTIM]
    # Member 4 was missing once only, so it had room for a set more than the others.
    opened = load(shard.states[VICTIM], "test").opened
    assert [len(sets) for sets in opened.values()] == [2]


# … and known attacks.


def test_a_split_view_opens_nothing():
    """Told two lists of survivors, the halves would unmask two sums whose difference is the update of client 8."""
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
    """Model inconsistency (Pasquini et al., CCS 2022): the victim's keys are bound to a model nobody else has."""
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


@pytest.mark.parametrize("place", [0, 40, 81])
def test_a_corrupted_ciphertext_is_refused(place):
    shard = Shard(5)

    def corrupt(delivery: Delivery):
        first, *rest = delivery.parcels
        sealed = bytearray(first.sealed)
        sealed[place] ^= 0x10
        return Delivery((replace(first, sealed=bytes(sealed)), *rest))

    outcome = shard.run(request=lie("upload", corrupt))
    assert_refused(shard, outcome, "from client 1: a sealed message that does not open")
    assert outcome.survivors == (1, 3, 4, 5)


def test_a_parcel_for_somebody_else_is_refused():
    shard = Shard(5)

    def misdeliver(delivery: Delivery):
        return Delivery((replace(delivery.parcels[0], recipient=3), *delivery.parcels[1:]))

    assert_refused(shard, shard.run(request=lie("upload", misdeliver)), "a parcel for client 3 was delivered")


def test_a_parcel_for_somebody_else_in_the_victims_name_does_not_open():
    shard, boxes = Shard(5), {}

    def redirect(step, client, data):
        if step != "upload":
            return data
        boxes[client] = read_request(data).parcels
        if client != VICTIM:
            return data
        (stolen,) = (parcel for parcel in boxes[1] if parcel.dealer == 3)
        mine = (p for p in boxes[VICTIM] if p.dealer != 3)
        return write(Delivery(tuple(sorted((*mine, replace(stolen, recipient=VICTIM)), key=lambda p: p.dealer))))

    assert_refused(shard, shard.run(request=redirect), "from client 3: a sealed message that does not open")


def test_parcels_swapped_between_dealers_are_refused():
    shard = Shard(5)

    def swap(delivery: Delivery):
        one, two, *rest = delivery.parcels
        return Delivery((replace(two, dealer=one.dealer), replace(one, dealer=two.dealer), *rest))

    assert_refused(shard, shard.run(request=lie("upload", swap)), "does not open")


def test_a_parcel_from_itself_or_a_stranger_is_refused():
    for dealer in (VICTIM, 9):
        shard = Shard(5)

        def forge(delivery: Delivery, dealer=dealer):
            forged = replace(delivery.parcels[0], dealer=dealer)
            kept = [p for p in delivery.parcels if p.dealer != dealer]
            return Delivery(tuple(sorted([*kept, forged], key=lambda p: p.dealer)))

        assert_refused(shard, shard.run(request=lie("upload", forge)), f"a parcel from client {dealer}")


def test_a_parcel_that_comes_twice_is_refused():
    """Counted twice, it would make a crowd of fewer members than the terms ask for."""
    shard = Shard(5)
    outcome = shard.run(request=lie("upload", lambda d: Delivery((d.parcels[0], *d.parcels[:-1]))))
    assert_refused(shard, outcome, "a list of parcels that names one twice")


@pytest.mark.parametrize("field", ["mask", "seed"])
def test_a_share_that_its_dealer_did_not_commit_to_is_refused_by_its_recipient(field):
    shard = Shard(5)

    def other(shares: Shares):
        first, *rest = shares.parcels
        return replace(shares, parcels=(replace(first, **{field: bytes(16)}), *rest))

    outcome = shard.run(reply=cheat("share", Shares, other, by=4))
    assert_refused(shard, outcome, "client 4 committed to another share than it sent", victim=1)
    assert outcome.survivors == (2, 3, 4, 5)


# The server drops a client …


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

    def request(at, client, data):  # noqa: ARG001  every hook is called alike
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


@pytest.mark.parametrize("dealer", [1, VICTIM, 5])
def test_the_server_drops_a_client_whose_share_does_not_match_its_commitment(dealer):
    """Shares of a living peer's seed, of its own, and of a dropped peer's mask key; the others still unmask the sum."""
    shard = Shard(6)

    def wrong(reveal: Reveal):
        return Reveal(tuple(replace(s, share=bytes(33)) if s.dealer == dealer else s for s in reveal.shares))

    outcome = shard.run(
        drop=lambda step, client: client == 5 and step == "upload", reply=cheat("reveal", Reveal, wrong)
    )
    assert f"a share of client {dealer} that does not match its commitment" in outcome.dropped[VICTIM]
    assert outcome.survivors == (1, 2, 3, 4, 6)
    assert shard.total_of(outcome) == shard.sum_of(outcome.survivors)


@pytest.mark.parametrize("change", [lambda r: Reveal(r.shares[1:]), lambda r: Reveal((*r.shares, r.shares[-1]))])
def test_the_server_drops_a_client_that_does_not_reveal_exactly_one_share_per_dealer(change):
    shard = Shard(6)
    outcome = shard.run(reply=cheat("reveal", Reveal, change))
    assert outcome.dropped.keys() == {VICTIM}
    assert shard.total_of(outcome) == shard.sum_of(shard.terms.members)


@pytest.mark.parametrize("gone", [True, False])
def test_a_secret_that_cannot_be_rebuilt_closes_the_shard_with_its_reason(gone, monkeypatch):
    """A malicious dealer commits to shares that lie on no polynomial: nobody can tell before they are put together."""
    shard = Shard(6)
    honest = round_client._cut

    def crooked(phase, secret_, entropy, info):
        shares = honest(phase, secret_, entropy, info)
        liar = phase.advertisement.client == 4
        return [hashlib.sha256(each).digest() + b"\0" for each in shares] if liar else shares

    monkeypatch.setattr(round_client, "_cut", crooked)
    outcome = shard.run(drop=lambda step, client: gone and client == 4 and step == "upload")
    assert outcome.total is None
    assert outcome.reason.startswith("the secret of client 4 cannot be rebuilt")


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
    text = keys.alive_text(bind(shard.terms, shard.roster, MODEL), (1, 2, 3))

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
    outcome = shard.run(reply=cheat("upload", Upload, change))
    assert why in outcome.dropped[VICTIM]
    assert (outcome.total is None) == (mode == "all-or-nothing")


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda k: replace(k, signature=bytes(64)), "does not verify"),
        (lambda k: replace(k, client=3), "in the name of client 3"),
    ],
)
def test_the_server_closes_an_all_or_nothing_shard_over_a_bad_key(change, why):
    shard = Shard(4, "all-or-nothing")
    outcome = shard.run(reply=cheat("key", SignedKey, change))
    assert why in outcome.dropped[VICTIM]
    assert "gave no usable key (client 2)" in outcome.reason


def test_the_server_closes_an_all_or_nothing_shard_over_a_key_of_small_order():
    shard = Shard(4, "all-or-nothing")
    outcome = shard.run(reply=cheat("key", SignedKey, lambda _: epoch_signed(shard, VICTIM, LOW_ORDER)))
    assert outcome.total is None
    assert "small order" in outcome.dropped[VICTIM]
    assert shard.refusals == {}


def test_the_server_closes_an_all_or_nothing_shard_over_a_copied_key():
    shard, seen = Shard(4, "all-or-nothing"), {}

    def copy(step, client, data):
        if step == "key":
            seen[client] = read_reply(SignedKey, data)
        return write(epoch_signed(shard, 2, seen[1].key)) if (step, client) == ("key", VICTIM) else data

    outcome = shard.run(reply=copy)
    assert "the same key as another member" in outcome.dropped[VICTIM]
    assert outcome.total is None


# All-or-nothing: the same lies about keys.


def epoch_signed(shard, client, key):
    message = SignedKey(client, key, bytes(64))
    context = bind_epoch(shard.terms, shard.roster)
    return replace(message, signature=sign(shard.signing[client], epoch_key_text(context, message)))


def forge(shard, ask, client, key):
    """Give a member another key, which it signed itself."""
    return replace(ask, keys=tuple(epoch_signed(shard, client, key) if k.client == client else k for k in ask.keys))


OTHER_KEY = exchange_key(secret("the server's own"))
EPOCH_LIES = {
    "client 1 comes with a signature that does not verify": lambda _, ask: replace(
        ask, keys=(replace(ask.keys[0], key=OTHER_KEY), *ask.keys[1:])
    ),
    "own key was replaced": lambda shard, ask: forge(shard, ask, VICTIM, OTHER_KEY),
    "not exactly those of the members": lambda _, ask: replace(ask, keys=ask.keys[:-1]),
    "names one twice": lambda _, ask: replace(ask, keys=(*ask.keys, ask.keys[-1])),
    "two members with equal keys": lambda shard, ask: forge(shard, ask, 4, ask.keys[0].key),
    "all zero": lambda shard, ask: forge(shard, ask, 3, LOW_ORDER),
    "no key was made for epoch 1": lambda _, ask: replace(ask, terms=replace(ask.terms, epoch=1)),
}


@pytest.mark.parametrize("why", EPOCH_LIES)
def test_a_client_refuses_lies_about_the_keys_of_an_epoch(why):
    shard = Shard(4, "all-or-nothing")
    outcome = shard.run(request=lie("upload", lambda ask: EPOCH_LIES[why](shard, ask)))
    assert_refused(shard, outcome, why)
    assert outcome.total is None


def test_a_client_refuses_other_members_within_an_epoch():
    shard = Shard(6, "all-or-nothing")
    few = make_terms(range(1, 5), "all-or-nothing")
    shard.respond(VICTIM, write(AskKey(few)))
    shard.respond(VICTIM, write(AskKey(make_terms((1, 2, 5, 6), "all-or-nothing"))))
    assert "gave a key for epoch 0 already" in shard.refusals[VICTIM]


def test_a_key_that_is_asked_for_again_is_the_same():
    shard = Shard(4, "all-or-nothing")
    ask = write(AskKey(shard.terms))
    assert shard.respond(VICTIM, ask) == shard.respond(VICTIM, ask)


# What is secret stays so.


def secrets_of(value):
    """Yield every byte string in a state, however deep."""
    if isinstance(value, bytes):
        yield value
    elif isinstance(value, (tuple, list)):
        for each in value:
            yield from secrets_of(each)
    elif isinstance(value, msgspec.Struct):
        for name in value.__struct_fields__:
            yield from secrets_of(getattr(value, name))


def test_no_repr_shows_a_secret():
    shard = Shard(4)
    seen = []

    def record(_step, client, data):
        seen.append(load(shard.states[client], "test"))
        return data

    shard.run(request=record)
    epoch = Shard(4, "all-or-nothing")
    epoch.run()
    seen += [load(state, "test") for state in epoch.states.values()]
    assert {type(state.phase).__name__ for state in seen} == {"NoneType", "Advertised", "Shared", "Masked", "Confirmed"}
    for state in seen:
        text = repr(state)
        for found in secrets_of((state.phase, state.key)):
            if len(found) >= 16:
                assert repr(found) not in text
                assert found.hex() not in text
    member = shard.members[1]
    assert repr(member.signing_key) not in repr(member)
    assert "secret" in repr(member)


def test_secrets_are_gone_from_the_state_after_their_last_use():
    shard, phases = Shard(4), {}

    def record(step, client, data):
        if client == VICTIM:
            phases[step] = shard.states[client]
        return data

    shard.run(request=record)
    advertised = load(phases["share"], "test").phase
    own = (advertised.mask, advertised.seed, advertised.channel)
    assert all(each in phases["upload"] for each in own)
    assert not any(each in phases["confirm"] for each in own)
    assert load(shard.states[VICTIM], "test").phase is None
    held = load(phases["reveal"], "test").phase.masked.held
    assert not any(each.mask in shard.states[VICTIM] or each.seed in shard.states[VICTIM] for each in held)


def test_a_new_round_erases_what_an_abandoned_one_left():
    shard = Shard(4)
    shard.run(drop=lambda step, client: step == "confirm")  # noqa: ARG005
    held = load(shard.states[VICTIM], "test").phase.held
    shard.next_round()
    shard.respond(VICTIM, write(Invite(shard.terms)))
    assert not any(each.seed in shard.states[VICTIM] for each in held)


def test_a_state_of_another_job_or_of_random_bytes_is_the_callers_mistake():
    with pytest.raises(ConfigError, match="cannot be read"):
        load(b"\xc1", "test")
    shard = Shard(3)
    shard.run()
    with pytest.raises(ConfigError, match="keep one state per job"):
        load(shard.states[1], "another")
