"""A lying server proposes terms of its own; nodes answer to their signed roster alone."""

import pytest

from f2ed import ConfigError
from f2ed.deployment.keyfiles import read_private
from f2ed.protocol.aggregation import Protocol
from f2ed.protocol.primitives.crypto import sign
from f2ed.protocol.secagg.messages import AskKey, SignedKey
from f2ed.protocol.secagg.schemes.dropout_tolerant import keys
from f2ed.protocol.secagg.schemes.dropout_tolerant.messages import Advertisement, Confirmation, Invite
from tests.flower.fake_grid import server
from tests.flower.lying_server import LyingServer, can_open

SMALL = [
    ({"protocol": Protocol(mode="dropout-tolerant", colluders=1)}, "the server asked for the mode 'dropout-tolerant'"),
    ({"colluders": 0}, "the server assumes 0 colluders in a shard; the roster says 1"),
    ({"colluders": 2}, "the server assumes 2 colluders in a shard; the roster says 1"),
    ({"epoch": 1}, "the server put round 0 into key epoch 1; by the roster it is 0"),
    ({"weights": (1, 1, 1, 3), "weight_cap": 3}, "weights"),
    ({"weights": (1, 1, 1, 1)}, "by the roster all have the same weight"),
]
LARGE = [
    ({"protocol": Protocol(mode="all-or-nothing", colluders=1)}, "the server asked for the mode 'all-or-nothing'"),
    ({"protocol": Protocol()}, "the server assumes 0 colluders in a shard; the roster says 1"),
    ({"threshold": 8, "min_crowd": 8}, "the server set a threshold of 8; by the roster it is 7"),
    ({"min_crowd": 8}, "the server set a crowd of 8; by the roster it is 7"),
    ({"epoch": 3}, "into key epoch 3; by the roster it is 0"),
    ({"weights": (1,) * 11}, "by the roster all have the same weight"),
]


def asked(server, terms):
    """Return who answered the first request of a round under these terms."""
    if terms.mode == "all-or-nothing":
        return server.ask_all(dict.fromkeys(terms.members, AskKey(terms)), SignedKey)
    return server.ask_all(dict.fromkeys(terms.members, Invite(terms)), Advertisement)


@pytest.mark.parametrize(("size", "changes", "why"), [(4, *case) for case in SMALL] + [(11, *case) for case in LARGE])
def test_nodes_refuse_terms_that_differ_from_their_roster(tmp_path, size, changes, why):
    lying = LyingServer(tmp_path, size)
    assert not asked(lying, lying.terms(**changes))
    assert all(why in refusal for refusal in lying.refusals.values())
    assert len(asked(lying, lying.terms())) == size  # and the honest terms are answered


def test_a_later_round_belongs_to_a_later_key_epoch(tmp_path):
    lying = LyingServer(tmp_path, 4, key_rounds=2)
    assert not asked(lying, lying.terms(3, epoch=0))
    assert "round 3 into key epoch 0; by the roster it is 1" in lying.refusals[0]
    assert len(lying.all_or_nothing(lying.terms(3, epoch=1))) == 4


@pytest.mark.parametrize("size", [11, 21])
@pytest.mark.parametrize("honest_terms", [False, True])
def test_an_accomplice_that_signs_two_lists_opens_nobody(tmp_path, size, honest_terms):
    """One half of the honest members is told that the victim is alive, the other half that it is not."""
    lying = LyingServer(tmp_path, size)
    members, accomplice, victim = tuple(range(size)), size - 1, 0
    with_victim, without = members, members[1:]
    terms = lying.terms(protocol=None if honest_terms else Protocol())
    lying.uploaded(terms)
    key = read_private(tmp_path / f"client_{accomplice}.key")

    def signs(alive):
        return [Confirmation(accomplice, sign(key, keys.alive_text(lying.deals.context, lying.deals.view(), alive)))]

    half = size // 2
    lists = {client: with_victim if client < half else without for client in members[:-1]}
    revealed = lying.split(lists, accomplice_signs=signs)
    # The accomplice adds one share of each kind.
    both = [can_open(revealed, members, alive, terms.threshold - 1) for alive in (with_victim, without)]
    assert both == [False, False]
    assert not revealed
    assert victim in lying.refusals


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"mode": "dropout-tolerant"}, "signed for 'all-or-nothing'; sign it again with --mode dropout-tolerant"),
        ({"key_rounds": 7}, "signed for 50; sign it again with --key-rounds 7"),
    ],
)
def test_a_server_may_only_repeat_what_the_roster_says(federation, settings, why):
    _, _, roster = federation()
    server(roster, mode="all-or-nothing", key_rounds=50)
    with pytest.raises(ConfigError, match=why):
        server(roster, **settings)


def test_the_privacy_budget_of_a_node_subtracts_the_colluders(tmp_path):
    """One of four colludes, so the noise of three must suffice: the honest terms say so, and others are refused."""
    lying = LyingServer(tmp_path, 4)
    terms = lying.terms(noise=1.0)
    assert (terms.colluders, terms.carriers) == (1, 3)
    assert not asked(lying, lying.terms(noise=1.0, carriers=4))
    assert "let at most 3 carry it" in lying.refusals[0]
    assert len(asked(lying, terms)) == 4
