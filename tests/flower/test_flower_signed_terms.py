"""A lying server proposes terms of its own; nodes answer to their signed roster alone."""

import pytest

from f2ed import ConfigError
from f2ed.deployment.keyfiles import read_private
from f2ed.deployment.roster import SignedEncoding
from f2ed.protocol.aggregation import Protocol
from f2ed.protocol.primitives.crypto import sign
from f2ed.protocol.secagg.messages import AskKey, SignedKey
from f2ed.protocol.secagg.schemes.dropout_tolerant import keys
from f2ed.protocol.secagg.schemes.dropout_tolerant.messages import Advertisement, Confirmation, Invite
from tests.flower.fake_grid import server
from tests.flower.lying_server import LyingServer, can_open

NOISE = {"encoding": SignedEncoding(clip_norm=1.0), "noise_multiplier": 1.0}
SMALL = [
    (
        {"protocol": Protocol(mode="dropout-tolerant", colluders=1)},
        "states mode 'dropout-tolerant' for round 0; this client's roster says 'all-or-nothing'",
    ),
    ({"colluders": 0}, "states colluders 0 for round 0; this client's roster says 1"),
    ({"colluders": 2}, "states colluders 2 for round 0; this client's roster says 1"),
    ({"epoch": 1}, "states epoch 1 for round 0; this client's roster says 0"),
    (
        {"weights": (1, 1, 1, 3), "weight_cap": 3},
        "states weights (1, 1, 1, 3) for round 0; this client's roster says ()",
    ),
    ({"weights": (1, 1, 1, 1)}, "states weights (1, 1, 1, 1) for round 0; this client's roster says ()"),
]
LARGE = [
    ({"protocol": Protocol(mode="all-or-nothing", colluders=1)}, "states mode 'all-or-nothing' for round 0"),
    ({"protocol": Protocol()}, "states threshold 6 for round 0; this client's roster says 7"),
    ({"threshold": 8, "min_crowd": 8}, "states threshold 8 for round 0; this client's roster says 7"),
    ({"min_crowd": 8}, "states min_crowd 8 for round 0; this client's roster says 7"),
    ({"epoch": 3}, "states epoch 3 for round 0; this client's roster says 0"),
    ({"weights": (1,) * 11}, "states weights (1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1) for round 0"),
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
    assert "states epoch 0 for round 3; this client's roster says 1" in lying.refusals[0]
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
        ({"mode": "dropout-tolerant"}, "signed for 'all-or-nothing'.*f2ed roster sign --mode dropout-tolerant"),
        ({"key_rounds": 7}, "signed for 50, .*f2ed roster sign --key-rounds 7"),
        ({"shards": 3}, "signed for 2, .*f2ed roster sign --shards 3"),
        ({"schedule": "every-round"}, "signed for 'fixed', .*f2ed roster sign --every or --batches"),
        ({"clip_value": 2.0}, r"signed for 1\.0, .*f2ed roster sign --clip-value 2\.0"),
        ({"clip_norm": 2.0}, r"signed for inf, .*f2ed roster sign --clip-norm 2\.0"),
        ({"bits": 16}, "signed for 20, .*f2ed roster sign --bits 16"),
        ({"noise_multiplier": 1.0}, r"signed for 0\.0, .*f2ed roster sign --noise-multiplier 1\.0"),
    ],
)
def test_a_server_may_only_repeat_what_the_roster_says(federation, settings, why):
    _, _, roster = federation()
    server(roster, mode="all-or-nothing", key_rounds=50, clip_value=1.0, bits=20, noise_multiplier=0.0)
    with pytest.raises(ConfigError, match=why):
        server(roster, **settings)


def test_the_privacy_budget_of_a_node_subtracts_the_colluders(tmp_path):
    """One of four colludes, so the noise of three must suffice: the honest terms say so, and others are refused."""
    lying = LyingServer(tmp_path, 4, fields=NOISE)
    terms = lying.terms()
    assert (terms.colluders, terms.carriers) == (1, 3)
    assert not asked(lying, lying.terms(carriers=4))
    assert "states carriers 4 for round 0; this client's roster says 3" in lying.refusals[0]
    assert len(asked(lying, terms)) == 4
