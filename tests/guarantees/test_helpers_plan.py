import pytest

from f2ed.core.errors import ConfigError
from f2ed.guarantees import plan_helpers, plan_shards
from f2ed.protocol.helpers import HelpersProtocol


def test_helpers_tolerate_what_shards_cannot_in_a_larger_crowd():
    shards = plan_shards(clients=100, malicious=8, min_crowd=4)
    helped = plan_helpers(clients=100, malicious=8, settings=HelpersProtocol(guard="nested"))
    assert not shards.ok
    assert helped.ok
    assert (helped.tolerated, helped.expected_crowd, helped.worst_crowd) == (8, 92, 84)


def test_one_more_attacker_has_no_theorem():
    found = plan_helpers(clients=100, malicious=9)
    assert not found.ok
    assert found.verdict == "No guarantee: 100 clients against 9 malicious clients violate 12·m < n."


def test_a_thousand_clients_tolerate_83():
    assert plan_helpers(clients=1000, malicious=83, settings=HelpersProtocol(guard="nested")).ok


def test_groups_cost_crowd_and_bound_what_all_rounds_tell():
    found = plan_helpers(clients=100, malicious=8)
    assert (found.expected_crowd, found.worst_crowd, found.group, found.cosine) == (68, 36, 4, 0.5)
    nested = plan_helpers(clients=100, malicious=8, settings=HelpersProtocol(guard="nested"))
    assert (nested.group, nested.cosine) == (1, 1.0)
    assert any("reaches single clients" in reason for reason in nested.why)


def test_a_crowd_that_groups_do_not_leave_is_said():
    found = plan_helpers(clients=100, malicious=8, min_crowd=60)
    assert found.verdict == "The theorem holds, but a sum may have 36 clients, below the min_crowd of 60."


def test_impossible_crowds_are_refused():
    with pytest.raises(ConfigError, match="ask for 1 to 10"):
        plan_helpers(clients=10, malicious=0, min_crowd=11)


def test_nested_sets_are_warned_of_and_groups_are_not():
    """As `f2ed audit` measured on real updates: 0.99 and 0.47 to 0.49 after 100 rounds."""
    nested = plan_helpers(clients=100, malicious=2, settings=HelpersProtocol(guard="nested"))
    fixed = plan_helpers(clients=100, malicious=2)
    assert nested.recovered > 0.95
    assert 0.4 < fixed.recovered <= fixed.cosine == 0.5
    assert "a cosine of 0.9" in nested.warnings[0]
    assert "Fixed groups of 4 bound it by 0.50 for ever" in nested.warnings[0]
    assert fixed.warnings == ()


def test_few_rounds_of_nested_sets_tell_little():
    nested = plan_helpers(clients=100, malicious=2, settings=HelpersProtocol(guard="nested"), rounds=10)
    assert nested.recovered < 0.5
    assert nested.warnings == ()


def test_what_groups_cost_is_said():
    found = plan_helpers(clients=100, malicious=8)
    assert found.warnings[0] == (
        "Fixed groups of 4 cost crowd: a rejected client takes 3 others with it, so 16 rejected ones leave 36 of 100 "
        "in the sum, where nested sets would leave 84. Smaller groups cost less and bound less."
    )
