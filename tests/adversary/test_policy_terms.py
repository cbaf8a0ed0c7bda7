"""A server that states other terms than follow from the signed roster: no field of them has an effect."""

import pytest
from msgspec.structs import replace

from f2ed.deployment.roster import SignedEncoding, round_task
from f2ed.protocol.aggregation import terms_of
from f2ed.protocol.secagg import Terms
from f2ed.protocol.secagg.messages import AskKey, SignedKey
from f2ed.protocol.secagg.schemes.dropout_tolerant.messages import Invite
from tests.flower.fake_grid import fingerprint, model
from tests.flower.lying_server import RUN, LyingServer

SIGNED = {
    "fields": {"encoding": SignedEncoding(clip_norm=1.0), "noise_multiplier": 1.0, "weight_cap": 4},
    "weights": {client: 3 + client % 2 for client in range(12)},
}
LIES = {
    "job": "clinics.1/another",
    "epoch": 1,
    "round": 500,
    "shard": 1,
    "members": (0, 1, 2),
    "mode": "clear",
    "threshold": 5,
    "min_crowd": 5,
    "colluders": 0,
    "length": 27,
    "ring": 64,
    "bits": 19,
    "clip_value": 2.0,
    "clip_norm": 2.0,
    "weights": (4, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3),
    "weight_cap": 5,
    "noise": 0.5,
    "carriers": 2,
    "groups": ((0, 1, 2, 3, 4, 5), (6, 7, 8, 9, 10, 11)),
    "agreement": "x25519",
}
"""Another value of every field."""
WEAKER = {
    "no colluder": {"colluders": 0},
    "a smaller crowd": {"min_crowd": 3},
    "no noise": {"noise_multiplier": 0.0},
    "a larger clip": {"encoding": SignedEncoding(clip_norm=100.0)},
    "equal weights": {"weight_cap": 1, "clients": None},
    "a heavy victim": {"clients": 0},
    "longer keys": {"key_rounds": 10**6},
}
"""What the server would derive from a roster that nobody signed, whole and consistent in itself."""


@pytest.fixture(params=[4, 12], ids=["all-or-nothing", "dropout-tolerant"])
def server(request, tmp_path):
    trained = []
    server = LyingServer(
        tmp_path, request.param, fault=lambda *_: trained.append(1), min_crowd=min(request.param, 10), **SIGNED
    )
    server.trained = trained
    return server


def uploads(server, terms, honest):
    """Lead a round: keys under the honest terms where there are some, then everything under the server's own."""
    if honest.mode == "dropout-tolerant":
        return server.uploaded(terms, Invite(terms))
    return server.all_or_nothing(terms, agreed=honest)


def test_every_field_has_its_lie():
    assert set(LIES) == set(Terms.__struct_fields__)


def test_the_honest_terms_are_followed(server):
    honest = server.terms()
    assert (honest.weights, honest.noise, honest.clip_norm) == (
        tuple(3 + client % 2 for client in honest.members),
        1.0,
        1.0,
    )
    assert len(uploads(server, honest, honest)) == len(honest.members)


@pytest.mark.parametrize("field", Terms.__struct_fields__)
def test_a_field_that_is_stated_differently_is_refused_by_name(server, field):
    honest = server.terms()
    lie = LIES[field]
    if len(honest.members) == 4 and isinstance(lie, tuple):
        lie = {"weights": (4, 3, 3, 3), "groups": ((0, 1), (2, 3))}.get(field, lie)
    assert getattr(honest, field) != lie
    assert not uploads(server, replace(honest, **{field: lie}), honest)
    named = {"round": "is beyond round", "length": "words"}.get(field, f"the server states {field} ")
    refusals = set(server.refusals.values())
    assert refusals
    assert all(named in refusal or "terms of mode 'clear' came with" in refusal for refusal in refusals), refusals
    assert not server.trained  # refused before a training function runs


def test_no_key_is_given_for_other_terms_either(tmp_path):
    server = LyingServer(tmp_path, 4, **SIGNED)
    honest = server.terms()
    for field in set(Terms.__struct_fields__) - {"length", "members", "weights", "groups"}:
        terms = replace(honest, **{field: LIES[field]})
        assert server.ask(0, AskKey(terms), SignedKey) is None, field


@pytest.mark.parametrize("weaker", WEAKER)
def test_terms_of_a_weaker_roster_that_nobody_signed_are_refused(server, weaker):
    """All fields fit each other, and differ from what follows from the node's own roster."""
    roster, changes = server.roster, dict(WEAKER[weaker])
    if "clients" in changes:
        heavy = changes["clients"]
        changes["clients"] = tuple(
            replace(entry, weight=1 if heavy is None else 4 if entry.id == heavy else 2) for entry in roster.clients
        )
    round_ = 60 if weaker == "longer keys" else 0
    other = replace(roster, **changes)
    task = round_task(other, roster.job(RUN), round_, model=fingerprint(model()), coordinates=26)
    lie, honest = terms_of(roster.assignment(round_), task, 0), server.terms(round_)
    if honest.mode == "all-or-nothing" and weaker == "a smaller crowd":
        assert lie == honest  # a shard that opens whole or not at all
        return
    assert not uploads(server, lie, honest)
    assert all("the server states " in refusal for refusal in server.refusals.values())


def test_the_signed_crowd_is_what_opens(tmp_path):
    """A node that ignored the roster's crowd would open sums over as few as the threshold allows."""
    server = LyingServer(tmp_path, 20, min_crowd=16)
    honest = server.terms()
    assert (honest.threshold, honest.min_crowd) == (11, 16)
    smaller = replace(honest, min_crowd=12)
    assert not server.uploaded(smaller)
    assert "states min_crowd 12 for round 0; this client's roster says 16" in server.refusals[0]
    assert len(server.uploaded(honest)) == 20
    fifteen = tuple(range(15))
    assert not server.split(dict.fromkeys(fifteen, fifteen))


def test_a_node_derives_its_terms_in_every_run_and_never_answers_a_round_twice(tmp_path):
    """The run's number enters the name of the job only: another run makes no round new."""
    server = LyingServer(tmp_path, 4)
    assert len(server.all_or_nothing(server.terms())) == 4
    assert not server.all_or_nothing(server.terms(run=8), run=8)
    assert "never begun twice" in server.refusals[0]
