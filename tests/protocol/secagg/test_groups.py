"""Groups: whatever opens is a sum over whole groups, and members refuse a list of survivors that tears one."""

import pytest
from msgspec.structs import replace

from f2ed.core.errors import ConfigError
from f2ed.protocol.secagg import secure_sum
from f2ed.protocol.secagg.schemes.dropout_tolerant.messages import Alive
from f2ed.protocol.secagg.terms import bind, torn
from tests.protocol.secagg.adversary import assert_refused, lie
from tests.protocol.secagg.shard_driver import MODEL, STEPS, Shard

PAIRS = ((1, 2), (3, 4), (5, 6), (7, 8))


def shard_of_pairs(mode="dropout-tolerant", **changes):
    return Shard(8, mode, groups=PAIRS, member={"clear": mode == "clear"}, **changes)


@pytest.mark.parametrize("ring", [16, 24, 32, 64])
@pytest.mark.parametrize("step", ["advertise", "share", "upload"])
def test_who_lost_a_member_of_its_group_counts_as_dropped(step, ring):
    shard = shard_of_pairs(ring=ring, bits=8)
    outcome = shard.run(drop=lambda at, client: (at, client) == (step, 3))
    assert outcome.survivors == (1, 2, 5, 6, 7, 8)
    assert shard.total_of(outcome) == shard.sum_of(outcome.survivors)
    assert "sum takes whole groups" in outcome.dropped[4]
    assert not shard.refusals


@pytest.mark.parametrize("step", ["confirm", "reveal"])
def test_who_drops_after_its_upload_stays_in_the_sum(step):
    shard = shard_of_pairs()
    outcome = shard.run(drop=lambda at, client: (at, client) == (step, 3))
    assert outcome.survivors == shard.terms.members
    assert shard.total_of(outcome) == shard.sum_of(outcome.survivors)


def test_too_few_whole_groups_close_the_shard():
    shard = shard_of_pairs()
    outcome = shard.run(drop=lambda step, client: step == "upload" and client in {1, 3})
    assert outcome.total is None
    assert outcome.reason.startswith("4 of 8 members uploaded, and it takes 5")


def test_the_self_seed_of_a_torn_member_stays_secret():
    """It uploaded, so its seed would open its update: only shares of its mask key are revealed."""
    shard, shown = shard_of_pairs(), []

    def request(step, client, data):
        if step == "reveal":
            shown.append(client)
        return data

    outcome = shard.run(drop=lambda step, client: (step, client) == ("upload", 3), request=request)
    assert 4 in shard.uploads
    assert 4 not in shown
    assert 4 not in outcome.survivors


def test_a_member_refuses_a_list_that_tears_a_group():
    shard = shard_of_pairs()
    outcome = shard.run(request=lie("confirm", lambda alive: Alive(tuple(c for c in alive.clients if c != 3))))
    assert_refused(shard, outcome, "client 4 is listed as alive without all of its group")


LISTS = [tuple(client for client in range(1, 9) if bits >> (client - 1) & 1) for bits in range(256)]


@pytest.mark.parametrize(
    "lists",
    [
        pytest.param([each for each in LISTS if len(each) >= 6 and 2 in each], id="likely"),
        pytest.param(LISTS, id="all", marks=pytest.mark.nightly),
    ],
)
def test_no_list_of_survivors_that_is_accepted_tells_less_than_a_group(lists):
    """Of 8 members in pairs: what is signed is a union of pairs with the member itself in it."""
    accepted = []
    for listed in lists:
        shard = shard_of_pairs(agreement="x25519")
        shard.run(request=lie("confirm", lambda _, listed=listed: Alive(listed)), drop=lambda at, _: at == "reveal")
        if 2 not in shard.refusals:
            accepted.append(listed)
    assert len(accepted) == 4  # All, or without one of the three other pairs: 5 is the smallest crowd.
    assert all(2 in listed and not torn(shard.terms, listed) and len(listed) >= 5 for listed in accepted)
    for client in range(1, 9):
        pair = next(pair for pair in PAIRS if client in pair)
        assert all((pair[0] in listed) == (pair[1] in listed) for listed in accepted)


def test_in_the_clear_the_same_members_are_in_the_sum():
    for step in STEPS["clear"]:
        shard = shard_of_pairs("clear")
        outcome = shard.run(drop=lambda at, client, step=step: (at, client) == (step, 3))
        assert outcome.survivors == (1, 2, 5, 6, 7, 8)
        assert shard.total_of(outcome) == shard.sum_of(outcome.survivors)
    shard = Shard(4, "clear", groups=((1, 2, 3, 4),), member={"clear": True})
    assert shard.run(drop=lambda _, client: client == 1).reason == "no group uploaded as a whole"


def test_all_or_nothing_takes_all_groups_anyway():
    shard = shard_of_pairs("all-or-nothing")
    assert shard.total_of(shard.run()) == shard.sum_of(shard.terms.members)


@pytest.mark.parametrize(
    ("groups", "why"),
    [
        (((1, 2), (3, 4)), "not exactly the members"),
        (((1, 2), (3, 4), (5, 6), (7, 9)), "not exactly the members"),
        (((1, 2), (2, 3, 4), (5, 6), (7, 8)), "not exactly the members"),
        (((3, 4), (1, 2), (5, 6), (7, 8)), "in ascending order"),
        (((2, 1), (3, 4), (5, 6), (7, 8)), "in ascending order"),
        (((1, 1, 2), (3, 4), (5, 6), (7, 8)), "in ascending order"),
    ],
)
def test_groups_that_are_no_partition_are_refused(groups, why):
    shard = Shard(8)
    with pytest.raises(ConfigError, match=why):
        next(secure_sum(replace(shard.terms, groups=groups), shard.roster, model=MODEL))


def test_the_groups_are_bound_into_the_context():
    shard = Shard(8)
    contexts = {
        bind(replace(shard.terms, groups=groups), shard.roster, MODEL)
        for groups in ((), PAIRS, ((1, 2), (3, 4), (5, 6, 7, 8)), ((1, 2, 3, 4), (5, 6), (7, 8)))
    }
    assert len(contexts) == 4
