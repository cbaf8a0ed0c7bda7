"""The choice of a rule by its largest regret."""

import pytest

from f2ed.experiments.reproduction.choice import Ends, Regret, choose, regret_table, worse

ALIKE = {"careful": Ends(95, 94, 3), "fast": Ends(95.2, 94.5, 60)}
LOST = {"careful": Ends(93, 70, 100), "fast": Ends(93, 80, 100)}


def test_a_regret_is_the_distance_from_the_best_rule_in_what_it_does_worst():
    found = choose({"alike": ALIKE})
    assert found["fast"]["alike"] == Regret(57, "backdoor")
    assert found["careful"]["alike"] == Regret(pytest.approx(0.5), "worst accuracy")


def test_a_setting_in_which_all_fall_to_a_backdoor_is_decided_by_accuracy():
    assert choose({"lost": LOST})["careful"]["lost"] == Regret(10, "worst accuracy")
    assert choose({"lost": LOST})["fast"]["lost"].points == 0


def test_the_choice_comes_first_and_only_rules_that_were_attacked_everywhere_are_considered():
    found = choose({"alike": ALIKE, "lost": LOST | {"elsewhere": Ends(93, 90, 100)}})
    assert list(found) == ["careful", "fast"]
    assert regret_table({"alike": ALIKE, "lost": LOST}, ["lost", "alike"]).rows == (
        ("careful", "10.0", "10.0 (worst accuracy)", "0.5 (worst accuracy)"),
        ("fast", "57.0", "0.0 (worst accuracy)", "57.0 (backdoor)"),
    )


def test_without_a_setting_there_is_nothing_to_choose():
    assert choose({}) == {}


def test_the_worse_of_a_list_and_a_search_counts():
    found = worse([("a", "rule", Ends(95, 90, 10)), ("a", "rule", Ends(95.5, 91, 20)), ("b", "rule", Ends(1, 2, 3))])
    assert found == {"a": {"rule": Ends(95.5, 90, 20)}, "b": {"rule": Ends(1, 2, 3)}}
