"""Groups as the authority makes them and as every node checks them: one test for each refusal."""

from itertools import pairwise

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from f2ed.core.errors import ConfigError, Refusal
from f2ed.deployment.roster import Entry, Gone, Grouping, Roster, check_groups, check_step, revised, round_task, signed
from f2ed.deployment.roster import draw as draw_module
from f2ed.deployment.roster.groups import check_leak, leak_bound
from f2ed.deployment.roster.parts import Group
from f2ed.protocol.aggregation import terms_of
from f2ed.protocol.secagg import public_key
from f2ed.protocol.sharding import Batches, EveryKRounds, EveryRound, chain_link

AUTHORITY, CHAIN = b"a" * 32, b"c" * 32
replace = msgspec.structs.replace


def entry(client):
    return Entry(client, f"client_{client}", public_key(client.to_bytes(32, "big")))


def draft(count):
    return Roster(name="clinics", authority=public_key(AUTHORITY), clients=tuple(map(entry, range(count))))


def close(roster, **changes):
    return signed(roster, AUTHORITY, **{"shards": None, "min_crowd": 3, "seed": CHAIN} | changes)


def groups_in(roster, shard):
    """Return who is opened together in a shard, as the terms of its members say."""
    task = round_task(roster, "job", 0, model=bytes(32), coordinates=1)
    return terms_of(roster.assignment(0), task, shard).groups


def moved(roster, *, leave=(), join=()):
    """Return a draft without some clients, and with others."""
    stay = [each for each in roster.clients if each.id not in leave]
    gone = [Gone(each.id, each.name, each.key) for each in roster.clients if each.id in leave]
    return revised(roster, clients=(*stay, *map(entry, join)), gone=(*roster.gone, *gone))


FIRST = close(draft(12), shards=3)
"""Three shards of four, each a group."""
STAYED = (4, 5, 6, 7, 8, 9)
FOUR_MORE = close(moved(FIRST, join=range(12, 16)))
"""A fourth group, of newcomers."""


def test_a_shard_is_a_group_at_first():
    assert sorted(group.members for group in FIRST.groups) == sorted(FIRST.assignment(0).shards)
    assert (FIRST.shards, FIRST.waiting, FIRST.history, FIRST.draw.link) == (3, (), (), 1)
    check_groups(FIRST)


def test_uneven_shards_are_groups_too():
    roster = close(draft(11), shards=4, min_crowd=2, colluders=0, malicious=0)
    assert sorted(len(group.members) for group in roster.groups) == [2, 3, 3, 3]


def test_where_dropouts_are_tolerated_a_shard_is_a_union_of_groups_of_four():
    roster = close(draft(40), shards=2, mode="dropout-tolerant")
    assert {len(group.members) for group in roster.groups} == {4}
    for shard, members in enumerate(roster.assignment(0).shards):
        groups = groups_in(roster, shard)
        assert tuple(sorted(client for group in groups for client in group)) == members


def test_pairs_are_groups_too():
    """A sum that tears a pair would be as bad as one that tears a larger group."""
    roster = close(draft(12), shards=2, mode="dropout-tolerant", group_size=2, accepted=["differences", "leak", "pool"])
    assert {len(group) for group in groups_in(roster, 0)} == {2}


def test_those_who_came_and_left_may_collude_and_the_worst_client_counts():
    """Two sums of eight differ in 0 and 1, who left, and 2 and 3, who came: with one of each, the others are bare."""
    every = [Group(index, 1, members, (1,) * 8) for index, members in enumerate(((0, 1, *STAYED), (2, 3, *STAYED)))]
    mixed = replace(FIRST, history=(every[0],), groups=(every[1],), colluders=1)
    check_leak(replace(mixed, grouping=replace(mixed.grouping, malicious=1)))
    with pytest.raises(
        Refusal, match=r"2 colluders, of whom 1 .* determine 0\.54 of the update of client_[0-3],.* 0\.50"
    ):
        check_leak(replace(mixed, grouping=replace(mixed.grouping, malicious=2)))


def test_more_colluders_take_larger_groups():
    assert close(draft(40), shards=2, mode="dropout-tolerant", colluders=5).grouping.size == 7


def test_newcomers_become_a_group_and_the_others_stay():
    assert FOUR_MORE.groups[:3] == FIRST.groups
    assert FOUR_MORE.groups[3].members == (12, 13, 14, 15)
    assert (FOUR_MORE.shards, FOUR_MORE.draw.link) == (4, 2)
    check_step(FIRST, FOUR_MORE)


def test_fragments_wait_while_newcomers_begin():
    left = next(iter(FIRST.groups[0].members))
    roster = close(moved(FIRST, leave=[left], join=range(12, 16)))
    assert set(roster.waiting) == set(FIRST.groups[0].members) - {left}
    assert roster.groups[-1].members == (12, 13, 14, 15)
    assert roster.history == (FIRST.groups[0],)
    check_step(FIRST, roster)


def test_a_signing_without_changes_makes_nothing():
    again = close(FIRST, key_rounds=9)
    assert (again.groups, again.seed, again.draw) == (FIRST.groups, FIRST.seed, FIRST.draw)
    check_step(FIRST, again)


def test_who_waits_belongs_to_no_shard():
    roster = close(moved(FIRST, join=[12]))
    with pytest.raises(Refusal, match=r"client 12 waits: it is in no group of the roster 'clinics' \(serial 2\) yet"):
        roster.shard_of(12, 0)
    assert 12 not in [client for shard in roster.assignment(0).shards for client in shard]


@pytest.mark.parametrize("schedule", [EveryRound(), EveryKRounds(2)])
def test_single_clients_are_resharded_only_where_that_is_accepted(schedule):
    with pytest.raises(ConfigError, match=r"groups of one.*--accept leak"):
        close(draft(12), shards=3, schedule=schedule)
    roster = close(draft(12), shards=3, schedule=schedule, accepted=["leak"])
    assert groups_in(roster, 0) == ()
    check_groups(roster)


def test_where_dropouts_are_tolerated_single_clients_take_two_risks():
    tolerant = {"shards": 1, "mode": "dropout-tolerant", "group_size": 1}
    with pytest.raises(ConfigError, match=r"a group of 1 where dropouts are tolerated.*--accept differences"):
        close(draft(12), **tolerant, accepted=["leak"])
    check_groups(close(draft(12), **tolerant, accepted=["leak", "differences"]))


def test_a_federation_that_nobody_is_left_in_is_not_signed():
    with pytest.raises(ConfigError, match=r"groups of all who wait: .*; new groups for everyone: .*; groups of those"):
        close(moved(FIRST, leave=[group.members[0] for group in FIRST.groups]))
    with pytest.raises(ConfigError, match="3 clients, too few for a group of 4"):
        close(moved(FIRST, join=range(12, 15)), regroup="pool")


def test_colluding_newcomers_are_not_grouped_with_a_fragment():
    """Five of eight in the pool may be malicious: with a chance of 29 % three of them surround one honest client."""
    fragments = {group.members[0] for group in FIRST.groups[:2]}
    changed = moved(FIRST, leave=fragments, join=(12, 13))
    many = {"malicious": 5, "accepted": ["leak"], "regroup": "pool"}
    with pytest.raises(ConfigError, match=r"5 may be malicious, and one client is outnumbered with a chance of 0\.29"):
        close(changed, **many)
    close(changed, **many, chance=0.3)
    roster = close(changed, **many | {"accepted": ["leak", "pool"]})
    with pytest.raises(Refusal, match=r"outnumbered with a chance of 0\.29"):
        check_step(FIRST, replace(roster, accepted=("leak",)))


def wrong(roster, place=-1, **changes):
    """Return the roster with one group changed."""
    groups = list(roster.groups)
    groups[place] = replace(groups[place], **changes)
    return replace(roster, groups=tuple(groups))


@pytest.mark.parametrize(
    ("roster", "why"),
    [
        (replace(FIRST, groups=()), "a roster without groups"),
        (wrong(FIRST, index=0), "two groups with the same index"),
        (wrong(FIRST, weights=(1,)), "does not consist of clients, one weight for each"),
        (wrong(FIRST, members=(90, 91, 92, 93)), "does not consist of clients"),
        (wrong(FIRST, members=(3, 3, 4, 5)), "names a client twice"),
        (wrong(FIRST, since=9), "or a later serial"),
        (wrong(FIRST, members=FIRST.groups[0].members), "a client in two groups at once"),
        (wrong(FIRST, weights=(1, 1, 1, 2)), "left or has another weight"),
        (replace(FIRST, groups=FIRST.groups[:2]), "does not follow from the authority's chain and the closed list"),
        (replace(FIRST, seed=bytes(32)), "does not follow from the authority's chain and the closed list"),
        (replace(FIRST, draw=replace(FIRST.draw, value=bytes(32))), "link 1 does not belong to the authority's chain"),
        (replace(FIRST, draw=replace(FIRST.draw, link=0)), "links are used in order, once"),
        (replace(FIRST, draw=replace(FIRST.draw, head=b"")), "--accept authority-draw"),
        (replace(FIRST, colluders=3), r"determine 0\.25 of the update of client_\d+, and at most 0\.20 is allowed"),
    ],
)
def test_a_roster_with_wrong_groups_is_refused(roster, why):
    with pytest.raises(Refusal, match=why):
        check_groups(roster)


def test_groups_that_the_seed_does_not_draw_are_refused():
    one, other = FIRST.groups[:2]
    changed = sorted((*one.members[1:], other.members[0])), sorted((*other.members[1:], one.members[0]))
    groups = (replace(one, members=tuple(changed[0])), replace(other, members=tuple(changed[1])), FIRST.groups[2])
    with pytest.raises(Refusal, match="the newest groups are not those that the seed draws"):
        check_groups(replace(FIRST, groups=groups))


def test_a_seed_of_the_authority_alone_is_an_accepted_risk():
    roster = close(draft(12), shards=3, accepted=["authority-draw"])
    assert (roster.draw.head, roster.seed) == (b"", CHAIN)
    check_groups(roster)
    with pytest.raises(Refusal, match="belongs to no chain"):
        check_groups(replace(roster, accepted=()))


ENDED = close(moved(FOUR_MORE, leave=[12]))
"""The fourth group has ended, and its other members wait."""


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        (FIRST, replace(FOUR_MORE, groups=FOUR_MORE.groups[1:]), "group 0 of the serial before changed, or is missing"),
        (ENDED, replace(close(ENDED), history=()), "group 3 of the serial before changed, or is missing"),
        (
            FIRST,
            replace(close(FIRST), history=(replace(FIRST.groups[0], index=9),)),
            "groups in the history that never were",
        ),
        (
            FIRST,
            replace(close(FIRST), groups=FIRST.groups[1:], history=FIRST.groups[:1]),
            "group 0 ended although nobody left it",
        ),
        (FIRST, wrong(FOUR_MORE, since=1), "does not follow|is new, and its index or serial is an older one"),
        (
            FIRST,
            replace(close(FIRST), seed=close(draft(11), shards=2).seed),
            "does not follow from the authority's chain",
        ),
    ],
)
def test_a_step_that_breaks_a_rule_is_refused(old, new, why):
    with pytest.raises(Refusal, match=why):
        check_step(old, new)


def test_the_seed_stays_if_no_group_is_made():
    """The authority takes the next link all the same, to assign the groups to shards once more."""
    again = close(draft(12), shards=3)
    later = chain_link(CHAIN, 2)
    clients = [client for group in again.groups for client in group.members]
    draw = replace(again.draw, link=2, value=later)
    rerolled = close(draft(12), shards=3)
    seed = draw_module._seed(again, draw, clients)
    members = draw_module._groups(again, clients, 3, seed)
    groups = tuple(replace(group, members=some) for group, some in zip(again.groups, members, strict=True))
    old = replace(rerolled, groups=groups)
    new = replace(old, serial=2, draw=draw, seed=seed)
    with pytest.raises(Refusal, match="another seed without new groups"):
        check_step(old, new)


def test_some_of_those_who_wait_cannot_be_chosen():
    waiting = close(moved(FIRST, join=range(12, 15)))
    more = moved(waiting, join=range(15, 21))
    chosen = revised(more, clients=tuple(each for each in more.clients if each.id not in (12, 20)))
    made = close(chosen, seed=CHAIN)
    everyone = tuple(
        sorted((*made.clients, *(each for each in more.clients if each.id in (12, 20))), key=lambda e: e.id)
    )
    with pytest.raises(Refusal, match="new groups of some clients that wait and not of others"):
        check_step(waiting, replace(made, clients=everyone))


def test_no_link_is_skipped():
    """The authority knows all links; if it could skip one, it would choose among seeds."""
    skipped = replace(FIRST, draw=replace(FIRST.draw, link=FIRST.draw.link + 1), signature=b"")
    made = close(moved(skipped, join=range(12, 16)))
    with pytest.raises(Refusal, match="link 3 of the authority's chain, after link 1; none is skipped or reused"):
        check_step(FIRST, made)


def test_the_chain_stays():
    other = close(replace(moved(FIRST, join=range(12, 16)), draw=replace(FIRST.draw, head=b"")), seed=b"x" * 32)
    with pytest.raises(Refusal, match="another chain than before"):
        check_step(FIRST, other)


def test_another_secret_does_not_sign():
    with pytest.raises(ConfigError, match="not the secret of the roster's chain"):
        close(moved(FIRST, join=range(12, 16)), seed=b"x" * 32)


def test_the_defaults_of_the_pool_rule():
    roster = close(draft(40), shards=4)
    assert roster.grouping == Grouping(size=10, hidden=2, malicious=4, chance=0.01)
    assert close(roster).grouping == roster.grouping


steps = st.lists(
    st.tuples(
        st.integers(0, 3),  # who leave
        st.integers(0, 6),  # who join
        st.sampled_from(["auto", "pool", "all", "new", "none"]),
    ),
    min_size=1,
    max_size=5,
)


@settings(max_examples=60, deadline=None)
@given(count=st.integers(8, 24), size=st.integers(3, 6), every=st.booleans(), changes=steps, seed=st.integers(0, 99))
def test_no_client_can_be_solved_for_whoever_comes_and_goes(count, size, every, changes, seed):
    """Whatever the steps, what was signed passes every node, and a numeric solve stays within the bound."""
    rng = np.random.default_rng(seed)
    schedule = {"schedule": Batches(size, 2)} if every else {}
    roster = close(draft(count), shards=max(1, count // size // 2 if every else count // size), **schedule)
    rosters, following = [roster], count
    for leavers, joiners, regroup in changes:
        leave = rng.choice([each.id for each in roster.clients], min(leavers, len(roster.clients) - 3), replace=False)
        changed = moved(roster, leave=set(leave.tolist()), join=range(following, following + joiners))
        following += joiners
        try:
            roster = close(changed, regroup=regroup, schedule=roster.schedule)
        except ConfigError:
            continue
        rosters.append(roster)
    check_groups(rosters[0])
    for old, new in pairwise(rosters):
        check_step(old, new)
    opened = {shard for each in rosters for round_ in range(12) for shard in each.assignment(round_).shards}
    columns = sorted({client for shard in opened for client in shard})
    rows = np.array([[client in shard for client in columns] for shard in sorted(opened)], float)
    leverage = np.diag(np.linalg.pinv(rows) @ rows)
    assert leverage.max() <= max(map(leak_bound, rosters)) + 1e-6
