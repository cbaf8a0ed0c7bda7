"""A node counts the sets of survivors that it confirmed, over all runs, before a confirmation leaves."""

import pytest
from msgspec.structs import replace

from f2ed import ConfigError
from f2ed.core.errors import Refusal
from f2ed.deployment.survivor_sets import SurvivorSets
from tests.protocol.secagg.shard_driver import Shard, make_terms

TERMS = make_terms(range(1, 9))
PAIRS = replace(TERMS, groups=((1, 2), (3, 4), (5, 6), (7, 8)))
EVERYONE = tuple(range(1, 9))


def without(client):
    return tuple(each for each in EVERYONE if each != client)


@pytest.fixture
def sets(tmp_path):
    return SurvivorSets(tmp_path / "a.survivors", most=2)


def test_another_set_than_the_allowed_ones_is_refused_for_good(sets):
    for alive in (without(8), without(7), without(8)):
        sets.confirm(TERMS, alive)
    assert sets.count(EVERYONE) == 2
    again = SurvivorSets(sets.path, most=2)  # As after a restart, or in another run.
    for terms in (TERMS, replace(TERMS, job="another run", round=9, epoch=3)):
        with pytest.raises(Refusal, match="2 different sets of survivors of this shard in all runs"):
            again.confirm(terms, without(6))
        again.confirm(terms, without(7))


def test_unions_of_groups_are_counted_and_need_no_limit(sets):
    for alive in (EVERYONE, EVERYONE[2:], EVERYONE[:-2], EVERYONE[:2] + EVERYONE[4:], EVERYONE):
        sets.confirm(PAIRS, alive)
    assert sets.count(EVERYONE) == 4


@pytest.mark.parametrize("groups", [PAIRS.groups, ((1, 2, 3), (4, 5, 6), (7,), (8,))])
def test_groups_that_are_too_small_to_hide_a_member_are_limited_too(sets, groups):
    """Two honest members and a colluder: the difference of two sums over pairs is one client."""
    small, terms = replace(sets, least=3), replace(TERMS, groups=groups)
    small.confirm(terms, EVERYONE)
    small.confirm(terms, EVERYONE[:-1])
    with pytest.raises(Refusal, match="A roster with groups of 3 or more needs no such limit"):
        small.confirm(terms, EVERYONE[:-2])


def test_every_shard_has_a_count_of_its_own(sets):
    sets.confirm(TERMS, without(8))
    assert sets.count(EVERYONE) == 1
    assert sets.count(EVERYONE[:-1]) == 0


def test_a_damaged_file_is_refused(sets):
    sets.path.write_bytes(b"{")
    with pytest.raises(ConfigError, match=r"the sets of survivors in .* cannot be read"):
        sets.confirm(TERMS, EVERYONE)


def test_differences_end_over_runs_and_nothing_is_signed_for_the_last(tmp_path):
    """In each run another member is listed as dropped; what a client remembers of a run is gone with it."""
    shard = Shard(6)
    counts = {client: SurvivorSets(tmp_path / f"{client}.survivors", most=2) for client in shard.members}
    shard.members = {
        client: replace(member, survivors=counts[client].confirm) for client, member in shard.members.items()
    }
    outcomes, confirmed = [], []
    for gone in (6, 5, 6, 4, 5):
        shard.states = dict.fromkeys(shard.members, b"")

        def drop(step, client, gone=gone):
            return client == gone and step == "upload"

        outcomes.append(shard.run(drop=drop))
        confirmed.append(len(shard.refusals))
        shard.next_round()
    assert [outcome.reason is None for outcome in outcomes] == [True, True, True, False, True]
    assert "it takes" in outcomes[3].reason
    assert confirmed[:3] == [0, 0, 0]
    assert "2 different sets" in shard.refusals[2]
