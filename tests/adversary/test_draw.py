"""An authority that works with the server signs groups of its choice: real nodes refuse to follow the roster.

The nodes are real: `protect`, key files, state files and rosters with valid signatures.
"""

import msgspec
import pytest
from flwr.app import ConfigRecord, Message

from f2ed import PeerError
from f2ed.deployment.hello import Hello
from f2ed.deployment.keyfiles import add_chain, read_private, read_secret
from f2ed.deployment.roster import Draw, Gone, Group, Grouping, check_groups, revised, signed, write_roster
from f2ed.flower.wire import reply_bytes, request_content
from f2ed.protocol.primitives.crypto import sign
from f2ed.protocol.secagg import Refused
from f2ed.protocol.secagg.messages import AskKey, SignedKey, read_reply
from f2ed.protocol.sharding import chain_link
from tests.adversary.lying_server import RUN, LyingServer, app_with
from tests.flower.fake_grid import FakeGrid, Node, real_roster, user_app

VICTIM = 0
replace = msgspec.structs.replace


class Federation:
    """Eight clients in two groups of four, and an authority that signs whatever it likes."""

    def __init__(self, folder, **settings):
        self.folder = folder
        self.roster, self.settings = real_roster(folder, 8, shards=2, **settings)
        self.authority, self.chain = read_private(folder / "authority.key"), read_secret(folder / "authority.chain")

    def refusals(self, roster):
        """Hand out a roster with a valid signature; return why each client does not follow it."""
        lie = replace(roster, signature=b"")
        lie = replace(lie, signature=sign(self.authority, lie.digest))
        write_roster(self.folder / "roster.json", lie)
        nodes = [Node(client, user_app(), own) for client, own in enumerate(self.settings)]
        return [why_not(place, node) for place, node in FakeGrid(nodes, 7).nodes.items()]


def why_not(place, node):
    """Ask a node who it is; return why it does not say so."""
    message = Message(request_content(ConfigRecord({"hello": bytes(32)})), place, "train")
    message.metadata.__dict__["_message_id"] = "a message"
    answer = msgspec.msgpack.decode(reply_bytes(node.answer(place, 7, message)), type=Hello | Refused)
    return answer.reason if isinstance(answer, Refused) else ""


@pytest.fixture
def federation(tmp_path):
    return Federation(tmp_path)


def groups_of_choice(drawn):
    """Return groups that put the victim among colluders, of whom there are more than three: the draw is never this."""
    chosen = next(each for each in ((1, 2, 3), (5, 6, 7)) if each != drawn[0].members[1:])
    others = tuple(client for client in range(1, 8) if client not in chosen)
    return Group(0, 1, (VICTIM, *chosen), (1,) * 4), Group(1, 1, others, (1,) * 4)


def test_honest_groups_are_followed(federation):
    assert federation.refusals(federation.roster) == [""] * 8


def test_a_victim_cannot_be_put_among_colluders(federation):
    lie = replace(federation.roster, groups=groups_of_choice(federation.roster.groups))
    assert all("the newest groups are not those that the seed draws" in why for why in federation.refusals(lie))


def test_a_seed_cannot_be_chosen_until_the_groups_suit(federation):
    """The authority tries seeds; each belongs to no link of its chain."""
    for number in range(3):
        lie = replace(federation.roster, seed=bytes([number]) * 32)
        assert all("does not follow from the authority's chain" in why for why in federation.refusals(lie))


def test_a_link_cannot_be_chosen(federation):
    for index, value in ((1, bytes(32)), (1, chain_link(federation.chain, 2)), (2, chain_link(federation.chain, 1))):
        lie = replace(federation.roster, draw=replace(federation.roster.draw, link=index, value=value))
        assert all("does not belong to the authority's chain" in why for why in federation.refusals(lie))


def test_an_authority_cannot_choose_its_chain_once_it_knows_the_keys(federation):
    """The sites were given the head with the authority's key, before they created keys of their own."""
    add_chain(federation.folder / "authority.pub", federation.roster.draw.head)
    assert federation.refusals(federation.roster) == [""] * 8
    begun = replace(
        federation.roster, serial=0, groups=(), grouping=Grouping(), draw=Draw(), seed=b"", previous=b"", signature=b""
    )
    for secret in (bytes(32), b"better".ljust(32)):
        lie = signed(begun, federation.authority, shards=2, min_crowd=3, seed=secret)
        check_groups(lie)
        assert all("another chain than the one that came with" in why for why in federation.refusals(lie))


def test_a_chain_cannot_be_left_out(federation):
    lie = replace(federation.roster, draw=replace(federation.roster.draw, head=b"", value=b"", link=0))
    assert all("belongs to no chain" in why for why in federation.refusals(lie))


def test_groups_that_give_one_client_away_are_not_followed(federation):
    """One client left, and the authority lets the others go on without saying that it accepts the leak."""
    roster = federation.roster
    left = roster.clients[7]
    changed = revised(
        roster,
        clients=roster.clients[:7],
        gone=(Gone(left.id, left.name, left.key),),
        accepted=(*roster.accepted, "leak"),
    )
    lie = signed(changed, federation.authority, shards=1, min_crowd=3, regroup="all", seed=federation.chain)
    assert all("exactly" in why for why in federation.refusals(replace(lie, accepted=roster.accepted))[:7])


def test_former_groups_cannot_be_forgotten(federation):
    """By itself the second serial looks innocent: its groups are the first that ever were."""
    roster = federation.roster
    assert federation.refusals(roster) == [""] * 8  # They follow the first serial now.
    risky = revised(roster, accepted=(*roster.accepted, "leak"))
    again = signed(risky, federation.authority, shards=2, min_crowd=3, regroup="all", seed=federation.chain)
    lie = replace(again, history=(), accepted=roster.accepted, previous=roster.digest)
    check_groups(lie)
    assert all("is missing from the history" in why for why in federation.refusals(lie))


def test_a_client_that_waits_says_so_and_sends_nothing(tmp_path):
    """The server asks a client that is in no group, as one of a shard of its choice."""
    lying = LyingServer(tmp_path, app_with(lambda *_: 1.0))
    roster = lying.roster
    authority, chain = read_private(tmp_path / "authority.key"), read_secret(tmp_path / "authority.chain")
    begun = replace(
        roster, serial=0, previous=b"", groups=(), grouping=Grouping(), draw=Draw(), seed=b"", signature=b""
    )
    three = signed(replace(begun, clients=roster.clients[:3]), authority, shards=1, min_crowd=3, seed=chain)
    late = signed(revised(three, clients=roster.clients), authority, shards=1, min_crowd=3, seed=chain)
    assert late.waiting == (3,)
    write_roster(tmp_path / "roster.json", late)
    terms = replace(lying.terms, job=late.job(RUN))
    with pytest.raises(PeerError, match="client 3 waits: it is in no group"):
        read_reply(SignedKey, lying.ask(3, AskKey(terms)))
