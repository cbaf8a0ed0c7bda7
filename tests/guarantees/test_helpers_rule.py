"""Which rule is recommended with helpers: Resilience where it leaves the crowd, else FilterL2."""

import pytest

from f2ed.estimators import FilterL2, Resilience
from f2ed.guarantees import plan_helpers, recommended_rule
from f2ed.guarantees.helpers_rule import least_crowd, recommended_groups
from f2ed.protocol.helpers import HelpersProtocol


@pytest.mark.parametrize(
    ("size", "malicious", "rule", "crowd"),
    [
        (4, 3, Resilience, 64),
        (4, 8, FilterL2, 36),  # 24 rejected, each with its group, would leave 4
        (3, 8, Resilience, 28),
        (2, 10, Resilience, 40),
        (2, 13, FilterL2, 48),
        (4, 0, FilterL2, 100),
    ],
)
def test_resilience_is_recommended_where_it_leaves_the_crowd(size, malicious, rule, crowd):
    found = recommended_rule(HelpersProtocol(size=size), clients=100, malicious=malicious)
    assert type(found.rule) is rule
    assert (found.size, found.crowd) == (size, crowd)
    assert found.rule.contamination == malicious / 100


def test_nested_sets_keep_filterl2():
    assert type(recommended_rule(HelpersProtocol(guard="nested"), clients=100, malicious=3).rule) is FilterL2


def test_a_larger_crowd_rules_resilience_out():
    settings = HelpersProtocol(size=2, crowd=60)
    assert type(recommended_rule(settings, clients=100, malicious=8).rule) is FilterL2
    assert type(recommended_rule(settings, clients=100, malicious=8, crowd=50).rule) is Resilience


def test_rows_that_resilience_cannot_use_are_left_to_filterl2():
    assert type(recommended_rule(HelpersProtocol(size=2, crowd=3), clients=12, malicious=2).rule) is FilterL2


def test_nobody_is_left_of_too_few():
    assert least_crowd(HelpersProtocol(size=4), 100, 30) == 0
    assert least_crowd(HelpersProtocol(guard="nested"), 100, 30) == 70


@pytest.mark.parametrize(("malicious", "rule", "size"), [(3, Resilience, 4), (8, Resilience, 3), (15, FilterL2, 2)])
def test_the_largest_groups_that_suffice_are_recommended(malicious, rule, size):
    found = recommended_groups(clients=100, malicious=malicious)
    assert (type(found.rule), found.size) == (rule, size)


def test_the_plan_names_rule_groups_and_clip():
    found = plan_helpers(clients=100, malicious=8)
    assert (found.rule, found.rule_size, found.rule_crowd) == ('{kind = "resilience", contamination = 0.08}', 3, 28)
    assert any("Recommended: Resilience with groups of 3." in reason for reason in found.why)
    assert any("clip_norm of about the median length" in reason for reason in found.why)
    assert any("Recommended: FilterL2." in reason for reason in plan_helpers(clients=100, malicious=20).why)
