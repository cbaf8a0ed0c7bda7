"""`f2ed plan --noise-multiplier … --dp-epsilon …`: the epsilon that noise buys, and its size."""

import json

import pytest

from f2ed.cli.app import app
from f2ed.core.errors import ConfigError
from f2ed.protocol.dp import dp_epsilon

PLAN = "plan --clients 100 --malicious 2 --shards 25"


def shown(line, capsys):
    with pytest.raises(SystemExit) as exit_:
        app(line)
    assert not exit_.value.code
    return " ".join(capsys.readouterr().out.split())


def test_it_shows_the_noise_and_the_epsilon_it_buys(capsys):
    text = shown(f"{PLAN} --rounds 100 --noise-multiplier 1 --dimension 10000", capsys)
    assert "Noise multiplier 1, 10,000 coordinates" in text
    # By hand: each of 4 adds 1/2; their mean has 1/4, that of 25 shards 1/20; a trusted server would add 1/100.
    assert "added by each client 0.5 50" in text
    assert "in the mean of a shard 0.25 25" in text
    assert "in the mean of all shards 0.05 5" in text
    assert "(central DP) 0.01 1" in text
    assert "carries 5 times what a trusted server would add (√25 = 5)" in text
    wanted = dp_epsilon(50.0, 1e-5)
    assert f"epsilon after 100 rounds {wanted:.3g}" in text
    assert "no meaningful guarantee" in text
    helped = dp_epsilon(100.0, 1e-5)
    assert f"if 2 malicious members help the server {helped:.3g}" in text


def test_it_shows_the_noise_that_an_epsilon_needs(capsys):
    text = shown(f"{PLAN} --rounds 100 --dp-epsilon 8", capsys)
    assert "For epsilon 8 after 100 rounds: --noise-multiplier 6.38." in text
    assert "times the clip norm" in text


def test_much_noise_is_a_strong_guarantee_and_one_round_is_one_round(capsys):
    assert "after one round is a strong guarantee" in shown(f"{PLAN} --noise-multiplier 10", capsys)
    assert "after one round is a moderate guarantee" in shown(f"{PLAN} --noise-multiplier 1", capsys)


def test_dropouts_are_counted(capsys):
    text = shown(f"{PLAN} --noise-multiplier 1 --mode dropout-tolerant --rounds 10", capsys)
    assert "each adds 1/√3 of it" in text
    assert "if nobody drops out" in text


def test_it_shows_above_which_noise_attackers_are_hidden(capsys):
    """By hand: 2·√(0.08·0.92·25/10,000) = 0.0271 for 2 of 25 shards."""
    line = f"{PLAN} --dimension 10000 --noise-multiplier"
    assert "Noise above 0.027 hides attackers" in (above := shown(f"{line} 0.03", capsys))
    assert "only the clip bounds them" in above
    assert "clip bounds them" not in shown(f"{line} 0.02", capsys)
    assert "hides attackers" not in shown("plan --clients 100 --malicious 0 --shards 25 --noise-multiplier 1", capsys)


def test_a_shard_holds_no_more_malicious_members_than_it_has_room_for(capsys):
    text = shown("plan --clients 100 --malicious 10 --shards 25 --noise-multiplier 1", capsys)
    assert f"if 3 malicious members help the server {dp_epsilon(4 / 2, 1e-5):.3g}" in text


def test_json_holds_both_costs(capsys):
    found = json.loads(shown(f"{PLAN} --rounds 10 --noise-multiplier 0.5 --dp-epsilon 4 --json", capsys))["noise"]
    assert found["asked"]["noise_multiplier"] == 0.5
    assert found["asked"]["dp_epsilon"] == pytest.approx(dp_epsilon(10 / (2 * 0.25), 1e-5), rel=1e-6)
    assert found["needed"]["dp_epsilon"] <= 4
    assert found["needed"]["noise_multiplier"] > 0.5


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("--noise-multiplier -1", "noise multiplier"),
        ("--noise-multiplier 1 --delta 1", "delta"),
        ("--dp-epsilon -1", "positive and finite"),
        ("--noise-multiplier 1 --dimension 0", "at least one coordinate"),
    ],
)
def test_meaningless_numbers_are_refused(line, why):
    with pytest.raises(ConfigError, match=why):
        app(f"{PLAN} {line}")
