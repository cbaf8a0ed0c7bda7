"""Split views in dropout-tolerant shards: colluders sign two lists, or advertise two sets of keys, and open nobody."""

from itertools import product

import numpy as np
import pytest
from msgspec.structs import replace

from f2ed import PeerError
from f2ed.deployment.keyfiles import read_private
from f2ed.protocol.primitives.crypto import sign
from f2ed.protocol.secagg import scheme_of
from f2ed.protocol.secagg.messages import Refused, decode, read_reply, write
from f2ed.protocol.secagg.schemes import read_request
from f2ed.protocol.secagg.schemes.dropout_tolerant import keys, merkle
from f2ed.protocol.secagg.schemes.dropout_tolerant.evidence import Deals
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
    TolerantUpload,
)
from f2ed.protocol.secagg.terms import bind
from tests.flower.lying_server import LyingServer, can_open
from tests.protocol.secagg.adversary import signed
from tests.protocol.secagg.shard_driver import MODEL, Shard, load, secret


def test_no_split_of_the_honest_members_signs_two_lists():
    """By brute force for every shard below 30: with c double signers two lists never both reach the threshold."""
    for size in range(3, 30):
        for colluders in range(size - 1):
            threshold, crowd = scheme_of("dropout-tolerant").quorum(size, colluders)
            honest = size - colluders
            assert not any(
                one + colluders >= threshold and honest - one + colluders >= threshold for one in range(honest + 1)
            )
            # One less would let both lists through wherever the honest members can be split evenly.
            evenly = honest // 2 + colluders
            assert honest % 2 or evenly >= threshold - 1
            assert crowd >= threshold


def reply_of(kind, data):
    reply = decode((kind, Refused), data, payload=10**6)
    return None if isinstance(reply, Refused) else reply


def ask_all(shard, requests, kind):
    replies = {client: reply_of(kind, shard.respond(client, write(ask))) for client, ask in requests.items()}
    return {client: reply for client, reply in replies.items() if reply is not None}


def uploaded(shard):
    """Lead everyone up to the uploads; return what was dealt."""
    peers = ask_all(shard, dict.fromkeys(shard.members, Invite(shard.terms)), Advertisement)
    shares = ask_all(shard, dict.fromkeys(peers, Peers(tuple(peers.values()))), Shares)
    deals = Deals(bind(shard.terms, shard.roster, MODEL), peers, shares)
    ask_all(shard, {client: Delivery(deals.delivery(client)) for client in shares}, TolerantUpload)
    return deals


@pytest.mark.parametrize(("size", "colluders"), [(5, 1), (7, 1), (8, 2), (9, 1), (9, 3), (11, 1), (12, 2), (21, 1)])
def test_colluders_that_sign_two_lists_open_nobody(size, colluders):
    """Half of the honest are told that the victim is alive, half that it is not; the colluders sign both lists."""
    shard = Shard(size, colluders=colluders)
    deals = uploaded(shard)
    members, victim = shard.terms.members, 1
    accomplices = members[size - colluders :]
    honest = members[: size - colluders]
    lists = (members, members[1:])
    told = {client: lists[0] if place < len(honest) / 2 else lists[1] for place, client in enumerate(honest)}
    signatures = {alive: {} for alive in lists}
    for client, alive in told.items():
        signatures[alive][client] = read_reply(Confirmation, shard.respond(client, write(Alive(alive))))
    for alive, client in product(lists, accomplices):
        text = keys.alive_text(deals.context, deals.view(), alive)
        signatures[alive][client] = Confirmation(client, sign(shard.signing[client], text))
    revealed = [_reveals(shard, [c for c in honest if told[c] == alive], signatures[alive]) for alive in lists]
    assert not all(revealed)
    assert victim in shard.refusals or not revealed[1]


def _reveals(shard, clients, signatures):
    ordered = Confirmations(tuple(signatures[client] for client in sorted(signatures)))
    return ask_all(shard, dict.fromkeys(clients, ordered), Reveal)


@pytest.mark.parametrize("size", [5, 7, 11])
def test_a_member_that_advertises_two_sets_of_keys_closes_the_shard(size):
    """The server shows one half of the members one set, the other half the other, and the same list of survivors."""
    shard = Shard(size, colluders=1)
    peers = ask_all(shard, dict.fromkeys(shard.members, Invite(shard.terms)), Advertisement)
    other = replace(peers[size], commitment=secret("another seed"))
    second = {**peers, size: signed(shard, size, other)}
    views = {client: peers if client <= size // 2 else second for client in shard.members if client != size}
    shares = ask_all(shard, {client: Peers(tuple(views[client].values())) for client in views}, Shares)
    assert len(shares) == size - 1  # Both sets are well signed: nobody can see it yet.
    for client in shares:
        deals = Deals(bind(shard.terms, shard.roster, MODEL), views[client], shares)
        parcels = tuple(each for each in deals.delivery(client))
        shard.respond(client, write(Delivery(parcels)))
    assert shard.refusals.keys() == set(shares)
    assert all("gave its dealer other keys" in why for why in shard.refusals.values())
    assert all(load(shard.states[client], "test").phase is None for client in shares)


def test_another_list_of_dealers_is_a_split_view():
    """Two members are told that one more of them never shared; the signatures then fit only one of the two views."""
    shard = Shard(7, colluders=1)
    peers = ask_all(shard, dict.fromkeys(shard.members, Invite(shard.terms)), Advertisement)
    shares = ask_all(shard, dict.fromkeys(peers, Peers(tuple(peers.values()))), Shares)
    deals = Deals(bind(shard.terms, shard.roster, MODEL), peers, shares)
    for client in shares:
        box = tuple(each for each in deals.delivery(client) if client > 2 or each.parcel.dealer != 7)
        shard.respond(client, write(Delivery(box)))
    alive = Alive((1, 2, 3, 4, 5, 6))
    confirmed = ask_all(shard, dict.fromkeys(alive.clients, alive), Confirmation)
    assert len(confirmed) == 6
    assert not _reveals(shard, confirmed, confirmed)
    assert all("a split view" in why for why in shard.refusals.values())


@pytest.mark.parametrize("hidden", ["parcel", "keys"])
def test_who_saw_another_view_spoils_no_sum(hidden):
    """A client that was shown less masks for fewer pairs: its upload is not added, and the rest adds up."""
    shard = Shard(7, colluders=1)

    def request(step, client, data):
        if client == 2 and step == "upload" and hidden == "parcel":
            return write(Delivery(read_request(data).parcels[1:]))
        if client == 2 and step == "share" and hidden == "keys":
            return write(Peers(read_request(data).advertisements[:-1]))
        return data

    outcome = shard.run(request=request)
    assert outcome.survivors == (1, 3, 4, 5, 6, 7)
    assert 2 in outcome.dropped
    assert shard.total_of(outcome) == shard.sum_of(outcome.survivors)


def test_a_client_that_lies_about_its_view_spoils_nothing_but_its_own_part():
    """With the right tag on another vector, the sum is off by exactly the difference that the liar itself uploaded."""
    shard = Shard(7, colluders=1)
    honest = {}

    def reply(step, client, data):
        if step == "upload":
            honest[client] = read_reply(TolerantUpload, data, payload=1000)
        if step == "upload" and client == 7:
            return write(replace(honest[7], payload=honest[1].payload))
        return data

    outcome = shard.run(reply=reply)
    sent, due = (np.frombuffer(honest[client].payload, "<u4") for client in (1, 7))
    wanted = np.array(shard.sum_of(shard.members), np.uint32) + sent - due
    assert shard.total_of(outcome) == wanted.tolist()


@pytest.mark.parametrize("size", [7, 11])
def test_real_nodes_with_an_accomplice_that_signs_two_lists_open_nobody(tmp_path, size):
    """The same through `protect`, key files and a signed roster, whose default is one colluder."""
    lying = LyingServer(tmp_path, size, mode="dropout-tolerant")
    members, accomplice = tuple(range(size)), size - 1
    terms = lying.terms()
    assert lying.uploaded(terms) == members

    key = read_private(tmp_path / f"client_{accomplice}.key")

    def signs(alive):
        return [Confirmation(accomplice, sign(key, keys.alive_text(lying.deals.context, lying.deals.view(), alive)))]

    lists = {client: members if client < size // 2 else members[1:] for client in members[:-1]}
    revealed = lying.split(lists, accomplice_signs=signs)
    assert not any(can_open(revealed, members, alive, terms.threshold - 1) for alive in (members, members[1:]))
    assert 0 in lying.refusals


def test_a_path_ends_at_the_root():

    for count in range(1, 20):
        leaves = [secret(count, place) for place in range(count)]
        root = merkle.root_of(leaves)
        for place in range(count):
            path = merkle.paths_of(leaves)[place]
            assert merkle.root_from(leaves[place], place, count, path) == root
            assert count == 1 or merkle.root_from(leaves[place - 1], place, count, path) != root
            with pytest.raises(PeerError, match="beyond the root"):
                merkle.root_from(leaves[place], place, count, (*path, bytes(32)))
            if path:
                with pytest.raises(PeerError, match="ends before the root"):
                    merkle.root_from(leaves[place], place, count, path[:-1])
