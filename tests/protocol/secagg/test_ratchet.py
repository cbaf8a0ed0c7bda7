"""The chains of all-or-nothing: a function of the round alone, and only forward."""

import hashlib
import hmac

import pytest
from msgspec.structs import replace

from f2ed.protocol.primitives.crypto import ratchet
from f2ed.protocol.secagg.messages import AskUpload, write
from f2ed.protocol.secagg.state import store
from tests.protocol.secagg.adversary import VICTIM
from tests.protocol.secagg.shard_driver import Shard, load


def test_a_step_is_hmac_sha_256():
    assert ratchet(bytes(32)) == hmac.new(bytes(32), b"f2ed ratchet 3", hashlib.sha256).digest()


def test_the_stored_chains_are_past_the_round_that_was_answered():
    shard = Shard(4, "all-or-nothing")
    shard.run()
    before = load(shard.states[VICTIM], "test").key
    assert before.round == 1
    shard.next_round()
    shard.run()
    after = load(shard.states[VICTIM], "test").key
    assert after.round == 2
    assert after.chains == tuple(chain and ratchet(chain) for chain in before.chains)


def test_members_that_missed_rounds_agree_with_those_that_did_not():
    shard = Shard(4, "all-or-nothing")
    shard.run()
    shard.next_round()
    assert shard.run(drop=lambda _step, client: client in (1, 3)).total is None
    terms = replace(shard.terms, round=9)
    outcome = shard.run(terms=terms)
    assert shard.total_of(outcome) == shard.sum_of(terms.members)


@pytest.mark.parametrize("round_", [2, 200_000])
def test_chains_go_neither_back_nor_very_far(round_):
    shard = Shard(4, "all-or-nothing")
    shard.run()
    state = load(shard.states[VICTIM], "test")
    # As if the mark were lost: the chains themselves do not go back.
    shard.states[VICTIM] = store(replace(state, key=replace(state.key, round=5), mark=()))
    shard.respond(VICTIM, write(AskUpload(replace(shard.terms, round=round_), *shard.keys)))
    assert "the chains are at round 5" in shard.refusals[VICTIM]
