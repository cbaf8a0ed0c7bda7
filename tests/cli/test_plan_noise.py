"""`f2ed plan --noise … --epsilon …`: what noise buys and what it costs."""

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


def test_it_says_what_noise_comes_to_and_what_it_is_worth(capsys):
    text = shown(f"{PLAN} --rounds 100 --noise 1 --dimension 10000", capsys)
    assert "Noise of 1 times the L2 clip in every sum, 10,000 coordinates" in text
    # By hand: each of 4 adds 1/2; their mean has 1/4, that of 25 shards 1/20; a trusted server would add 1/100.
    assert "added by each client 0.5 50" in text
    assert "in the mean of a shard 0.25 25" in text
    assert "in the mean of all shards 0.05 5" in text
    assert "(central DP) 0.01 1" in text
    assert "carries 5 times what a trusted server would add (√25 = 5)" in text
    wanted = dp_epsilon(50.0, 1e-5)
    assert f"epsilon after 100 rounds {wanted:.3g}" in text
    assert "no promise to speak of" in text
    helped = dp_epsilon(100.0, 1e-5)
    assert f"if 2 malicious sit beside it and help {helped:.3g}" in text


def test_it_says_what_noise_an_epsilon_takes(capsys):
    text = shown(f"{PLAN} --rounds 100 --epsilon 8", capsys)
    assert "For epsilon 8 after 100 rounds: --noise 6.38." in text
    assert "times the clip of an update" in text


def test_much_noise_is_a_strong_promise_and_one_round_is_one_round(capsys):
    assert "after one round is a strong promise" in shown(f"{PLAN} --noise 10", capsys)
    assert "after one round is a promise of some worth" in shown(f"{PLAN} --noise 1", capsys)


def test_drop_outs_are_counted(capsys):
    text = shown(f"{PLAN} --noise 1 --mode dropout-tolerant --rounds 10", capsys)
    assert "each adds 1/√3 of it" in text
    assert "if nobody drops out" in text


def test_it_says_from_which_noise_on_attackers_are_not_seen(capsys):
    """By hand: 2·√(0.08·0.92·25/10,000) = 0.0271 for 2 of 25 shards."""
    line = f"{PLAN} --dimension 10000 --noise"
    assert "Noise above 0.027 hides attackers" in (above := shown(f"{line} 0.03", capsys))
    assert "what bounds them is the clip alone" in above
    assert "what bounds them" not in shown(f"{line} 0.02", capsys)
    assert "hides attackers" not in shown("plan --clients 100 --malicious 0 --shards 25 --noise 1", capsys)


def test_no_more_malicious_sit_in_a_shard_than_it_has_room_for(capsys):
    text = shown("plan --clients 100 --malicious 10 --shards 25 --noise 1", capsys)
    assert f"if 3 malicious sit beside it and help {dp_epsilon(4 / 2, 1e-5):.3g}" in text


def test_json_holds_both_prices(capsys):
    found = json.loads(shown(f"{PLAN} --rounds 10 --noise 0.5 --epsilon 4 --json", capsys))["noise"]
    assert found["asked"]["multiplier"] == 0.5
    assert found["asked"]["epsilon"] == pytest.approx(dp_epsilon(10 / (2 * 0.25), 1e-5), rel=1e-6)
    assert found["needed"]["epsilon"] <= 4
    assert found["needed"]["multiplier"] > 0.5


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("--noise -1", "noise multiplier"),
        ("--noise 1 --delta 1", "delta"),
        ("--epsilon -1", "positive and finite"),
        ("--noise 1 --dimension 0", "at least one coordinate"),
    ],
)
def test_what_means_nothing_is_refused(line, why):
    with pytest.raises(ConfigError, match=why):
        app(f"{PLAN} {line}")
