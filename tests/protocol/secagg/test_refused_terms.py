"""Terms that could single a client out are refused, and so are requests that do not fit them."""

from math import inf

import numpy as np
import pytest
from msgspec.structs import replace

from f2ed.core.errors import PeerError, Refusal
from f2ed.protocol.secagg import Member, encapsulate, public_key
from f2ed.protocol.secagg.client import step as take_step
from f2ed.protocol.secagg.member import StepInput
from f2ed.protocol.secagg.messages import AskKey, AskUpload, SignedKey, read_reply, write
from f2ed.protocol.secagg.schemes import read_request
from f2ed.protocol.secagg.schemes.dropout_tolerant.messages import (
    Invite,
)
from f2ed.protocol.sharding import assign_shards
from tests.protocol.secagg.adversary import VICTIM
from tests.protocol.secagg.shard_driver import MODEL, Shard, load, make_terms, secret

TERMS = [
    pytest.param({"threshold": 3}, {}, "a threshold of 3 for 6 members", id="threshold too low"),
    pytest.param({"colluders": 1, "threshold": 3}, {}, "a threshold of 3", id="threshold too low for colluders"),
    pytest.param({"min_crowd": 3}, {}, "sums of 3 may be opened", id="sums smaller than the threshold"),
    pytest.param({"min_crowd": 7}, {}, "sums of 7", id="more survivors than members"),
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
    pytest.param({"mode": "clear"}, {}, "mode 'clear'", id="another mode"),
    pytest.param({}, {"noise": 1.0}, "noise of 0 times the clip norm; this client demands 1", id="no noise"),
    pytest.param({"noise": 0.9, "carriers": 4}, {"noise": 1.0}, "noise of 0.9 times", id="noise lowered"),
    pytest.param({"noise": 1.0, "clip_norm": inf}, {}, "noise without an L2 clip", id="noise without a clip"),
    pytest.param({"carriers": 2}, {}, "2 members to carry noise, and no noise", id="carriers of nothing"),
    pytest.param(
        {"noise": 1.0, "carriers": 5},
        {"noise": 1.0},
        "noise that takes 5 members, and a sum of 4",
        id="noise that dropouts would remove",
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


@pytest.mark.parametrize("request_of", [AskKey, AskUpload, Invite], ids=["key", "upload", "invite"])
def test_a_client_agrees_to_no_step_of_a_round_in_another_job(request_of):
    shard = Shard(5, "dropout-tolerant" if request_of is Invite else "all-or-nothing")
    answer = shard.respond(VICTIM, write(request_of(replace(shard.terms, job="another"))))
    with pytest.raises(PeerError, match="an invitation to job 'another'"):
        read_reply(SignedKey, answer)
    assert load(shard.states[VICTIM], "test").key is None


def test_a_server_that_told_others_of_less_noise_opens_nothing():
    """The noise is bound: a member with terms of more noise derives other masks, and its upload another context."""
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
    for request in (AskKey(tolerant), AskUpload(tolerant), Invite(make_terms(range(1, 5), "all-or-nothing"))):
        shard.respond(VICTIM, write(request))
        assert "terms of mode" in shard.refusals[VICTIM]


def test_a_client_refuses_to_upload_in_the_clear():
    shard = Shard(4, "clear")
    assert shard.run().reason == "no member uploaded"
    assert "only takes part in masked sums" in shard.refusals[VICTIM]


def test_a_victim_assigned_among_accomplices_refuses():
    """The server puts the victim among members of its choice instead of those of the public assignment."""
    roster = {i: public_key(secret(0, "identity", i)) for i in range(1, 13)}
    plan = assign_shards(roster, shards=3, epoch=0, seed=b"drawn by all")
    mine = plan.shards[plan.shard_of(VICTIM)]
    member = Member(
        id=VICTIM, signing_key=secret(0, "identity", VICTIM), roster=roster, job="test", shard=lambda _: mine
    )
    given = StepInput(MODEL, np.zeros, bytes(32), encapsulate)
    accomplices = tuple(sorted({VICTIM, *(i for i in roster if i not in mine)}))[: len(mine)]
    assert VICTIM in accomplices
    with pytest.raises(Refusal, match="not those that the roster, the round and the seed assign"):
        take_step(Invite(make_terms(accomplices)), load(b"", "test"), member, given)
    take_step(Invite(make_terms(mine)), load(b"", "test"), member, given)
