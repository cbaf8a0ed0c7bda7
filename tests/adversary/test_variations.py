"""Variations of the known attacks, each through real nodes: key files, state files and signed rosters."""

import msgspec

from f2ed.deployment.roster.draw import drawn
from f2ed.deployment.round_mark import RoundMark
from f2ed.protocol.secagg.messages import AskKey, SignedKey
from tests.adversary.test_draw import Federation
from tests.flower.fake_grid import FakeGrid, Node, model, opened, real_roster, server, user_app
from tests.flower.lying_server import RUN, LyingServer

replace = msgspec.structs.replace


def test_an_authority_cannot_try_serials_until_the_groups_suit(tmp_path):
    """Serials may be left out; if the draw depended on the number, it would be a nonce to grind."""
    federation = Federation(tmp_path)
    outline = replace(federation.roster, groups=(), seed=b"", draw=replace(federation.roster.draw, link=0))
    made = {
        drawn(replace(outline, serial=serial), range(8), count=2, secret=federation.chain).groups[0].members
        for serial in (1, 2, 3, 50, 2**40)
    }
    assert made == {federation.roster.groups[0].members}


def test_an_authority_cannot_try_ids_until_the_groups_suit(tmp_path):
    """Whoever gives the ids could permute them among the clients: the same people are together under any."""
    federation = Federation(tmp_path)
    outline = replace(federation.roster, groups=(), seed=b"", draw=replace(federation.roster.draw, link=0))
    made = set()
    for ids in (range(8), reversed(range(8)), (3, 1, 4, 0, 5, 7, 2, 6), range(100, 108)):
        clients = tuple(replace(entry, id=new) for entry, new in zip(outline.clients, ids, strict=True))
        other = replace(outline, clients=tuple(sorted(clients, key=lambda entry: entry.id)))
        groups = drawn(other, sorted(other.keys), count=2, secret=federation.chain).groups
        made.add(frozenset(frozenset(other.keys[each] for each in group.members) for group in groups))
    assert len(made) == 1


def test_a_zero_with_a_sign_is_another_term(tmp_path):
    """-0.0 equals 0.0: the node would follow its own terms, and write another context into its log."""
    lying = LyingServer(tmp_path, 4)
    assert lying.ask(0, AskKey(lying.terms(noise=-0.0)), SignedKey) is None
    assert "the server states noise -0.0 for round 0; this client's roster says 0.0" in lying.refusals[0]
    assert lying.ask(0, AskKey(lying.terms()), SignedKey)


def test_a_client_with_many_nodes_has_one_voice_about_the_settings_of_the_run(tmp_path):
    """Client 0 connects ten nodes that were given other settings; the server would bind everyone's round to them."""
    roster, settings = real_roster(tmp_path, 8, shards=2, min_crowd=4)
    nodes = [Node(client, user_app(), settings[client]) for client in range(1, 8)]
    clones = [Node(0, user_app(), settings[0], {"other": 1}) for _ in range(10)]
    leader = server(roster)
    leader.start(FakeGrid(nodes + clones, RUN), model(), num_rounds=1)
    assert opened(leader) == [place for place, members in enumerate(roster.assignment(0).shards) if 0 not in members]


def test_one_client_that_claims_a_far_round_stalls_nobody(tmp_path):
    roster, settings = real_roster(tmp_path, 8, shards=2, min_crowd=4)
    nodes = [Node(client, user_app(), settings[client]) for client in range(8)]
    RoundMark(tmp_path / "client_0.state" / f"{roster.lineage}.rounds", 0, 2**32).spend(2**31)
    leader = server(roster)
    leader.start(FakeGrid(nodes, RUN), model(), num_rounds=1)
    assert opened(leader) == [place for place, members in enumerate(roster.assignment(0).shards) if 0 not in members]
