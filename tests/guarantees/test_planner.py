import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from f2ed.core.errors import ConfigError
from f2ed.guarantees import guarantee, plan_shards
from f2ed.guarantees.plan_text import percent

counts = st.integers(2, 600)


@given(counts, st.integers(0, 12), st.integers(2, 40))
def test_the_feasible_numbers_are_exactly_those_that_give_both(clients, malicious, crowd):
    assume(malicious < clients and crowd <= clients)
    advice = plan_shards(clients=clients, malicious=malicious, min_crowd=crowd)
    both = [p for p in range(1, clients + 1) if 12 * malicious < p and clients // p >= crowd]
    assert list(advice.feasible) == both
    assert advice.ok == bool(both)
    assert (advice.recommended in both) if both else (advice.recommended is None)


@given(counts, st.integers(1, 12), st.integers(2, 40))
def test_every_proposed_change_works_and_is_the_nearest(clients, malicious, crowd):
    assume(malicious < clients and crowd <= clients)
    settings = {"clients": clients, "malicious": malicious, "min_crowd": crowd}
    for change in plan_shards(**settings).changes:
        assert plan_shards(**(settings | {change.setting: change.value})).ok
        assert plan_shards(**(settings | {change.setting: change.value}), shards=change.shards).ok
        nearer = change.value - 1 if change.setting == "clients" else change.value + 1
        assert not plan_shards(**(settings | {change.setting: nearer})).ok


def test_it_recommends_an_even_split_with_equal_shards():
    advice = plan_shards(clients=1000, malicious=2, min_crowd=8)
    assert (advice.lowest, advice.highest, advice.recommended) == (25, 125, 50)
    assert advice.choice == guarantee(clients=1000, malicious=2, shards=50)
    assert (
        advice.verdict
        == "Guaranteed: 50 shards tolerate 2 malicious clients, and every client is hidden in a crowd of 20."
    )


def test_it_takes_unequal_shards_where_equal_ones_are_far():
    assert plan_shards(clients=1009, malicious=2, min_crowd=8).recommended == 56  # a prime number of clients; √(25·126)


def test_its_options_run_from_end_to_end():
    advice = plan_shards(clients=1000, malicious=2, min_crowd=8)
    assert [option.shards for option in advice.options] == [25, 37, 50, 56, 84, 125]
    assert all(option.holds and option.crowd >= 8 for option in advice.options)


def test_without_attackers_everyone_shares_one_shard():
    advice = plan_shards(clients=50, malicious=0, min_crowd=3)
    assert advice.recommended == 1
    assert advice.verdict == "Guaranteed: every client is hidden in a crowd of 50."


def test_it_judges_the_papers_large_setting():
    advice = plan_shards(clients=100, malicious=10, shards=25)
    assert not advice.ok
    assert advice.judged
    assert advice.verdict.startswith("No guarantee: 25 shards against 10 malicious clients")
    assert "12·10 = 120 ≥ 25" in advice.why[0]
    assert "no min_crowd is small enough" in advice.why[-1]
    assert {change.setting: change.value for change in advice.changes} == {"malicious": 2, "clients": 484}


def test_it_finds_nothing_for_the_papers_small_setting():
    advice = plan_shards(clients=20, malicious=5, min_crowd=2)
    assert advice.choice is None
    assert advice.verdict == "No number of shards gives both protections."
    assert {change.setting: change.value for change in advice.changes} == {"malicious": 0, "clients": 122}


def test_a_judged_number_that_only_needs_another_p_gets_that_change():
    advice = plan_shards(clients=1000, malicious=5, shards=50, min_crowd=10)
    assert [(change.setting, change.value) for change in advice.changes] == [("shards", 61)]
    assert advice.changes[0].text == "use from 61 to 100 shards"


def test_a_judged_number_that_hides_too_few_gets_that_change():
    advice = plan_shards(clients=1000, malicious=2, shards=200, min_crowd=8)
    assert advice.verdict == "The theorem holds, but the crowd is 5, below the min_crowd of 8."
    assert [(change.setting, change.value) for change in advice.changes] == [("shards", 125)]


def test_half_of_the_shards_or_more_leave_no_estimator_a_chance():
    assert "no estimator can tell" in plan_shards(clients=100, malicious=60, shards=25).why[0]


def test_one_shard_per_client_hides_nobody():
    advice = plan_shards(clients=100, malicious=8, shards=100)
    assert advice.verdict == "The theorem holds against 8 malicious clients, but the server sees every update."


def test_a_lack_of_spare_shards_is_stated():
    assert any("no spare shards" in line for line in plan_shards(clients=100, malicious=2, shards=25).why)


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"clients": 10, "malicious": 1}, "give min_crowd"),
        ({"clients": 10, "malicious": 1, "min_crowd": 0}, "ask for 1 to 10"),
        ({"clients": 10, "malicious": 1, "min_crowd": 11}, "ask for 1 to 10"),
        ({"clients": 10, "malicious": 1, "shards": 0}, "choose from 1 to 10"),
        ({"clients": 10, "malicious": 1, "shards": 11}, "choose from 1 to 10"),
        ({"clients": 10, "malicious": 10, "min_crowd": 2}, "from 0 to 9"),
    ],
)
def test_impossible_questions_are_refused(settings, why):
    with pytest.raises(ConfigError, match=why):
        plan_shards(**settings)


@pytest.mark.parametrize(
    ("chance", "text"),
    [(0.0, "0%"), (1.0, "100%"), (0.178, "17.8%"), (2e-5, "2e-03%"), (1e-20, "<1e-10%"), (1 - 1e-6, ">99.9%")],
)
def test_a_chance_is_printed_without_rounding_to_certainty(chance, text):
    assert percent(chance) == text
