"""`f2ed roster sign --buffers …`: rules for statistics, and for the clips of single arrays."""

import pytest

from f2ed import ConfigError
from f2ed.cli.array_options import ArrayOptions
from f2ed.deployment.roster import read_roster
from f2ed.protocol.aggregation import ArrayClip, Buffers
from tests.cli.test_roster_command import begun, close  # noqa: F401  a fixture


@pytest.fixture
def rules(begun):  # noqa: F811  pytest finds it by this name
    def signed(**options):
        accepted = options.pop("accept", None)
        close(begun, shards=2, arrays=ArrayOptions(**options), accept=accepted)
        return read_roster(begun / "roster.json").array_rules

    return signed


def test_the_first_signing_averages_buffers_on_their_own(rules, capsys):
    assert rules() == Buffers()
    assert "buffers: policy average, clip_value 10.0" in capsys.readouterr().out


def test_a_later_signing_changes_what_is_given_and_keeps_the_rest(rules):
    first = rules(buffers="keep", array_clip=["head.*=0.5", "*=2"])
    assert first == Buffers(policy="keep", clips=(ArrayClip("head.*", 0.5), ArrayClip("*", 2.0)))
    second = rules(buffers="average", buffer_clip=50.0, buffer=["*.stat"])
    assert second == Buffers(clip_value=50.0, names=("*.stat",), clips=first.clips)
    assert rules() == second
    assert rules(array_clip=[]) == Buffers(clip_value=50.0, names=("*.stat",))


def test_buffers_on_each_node_need_the_risk(rules):
    with pytest.raises(ConfigError, match="--accept stateful"):
        rules(buffers="local")
    assert rules(buffers="local", accept=["stateful"]).policy == "local"


@pytest.mark.parametrize("text", ["head", "=1", "head=x", "head=-1", "head=0"])
def test_a_clip_that_is_none_is_refused(rules, text):
    with pytest.raises(ConfigError, match="write it as PATTERN=VALUE"):
        rules(array_clip=[text])


def test_a_buffer_clip_that_is_none_is_refused(rules):
    with pytest.raises(ConfigError, match="clip_value"):
        rules(buffer_clip=-1.0)


def test_numbers_of_samples_are_weights_up_to_the_cap(begun):  # noqa: F811  pytest finds it by this name
    counts = [f"clinic_{client}={1000 + 100 * client}" for client in range(8)]
    close(begun, shards=2, weight=counts, weight_cap=1200, accept=["leak"])
    weights = [entry.weight for entry in read_roster(begun / "roster.json").clients]
    assert weights == [1000, 1100, 1200, 1200, 1200, 1200, 1200, 1200]
