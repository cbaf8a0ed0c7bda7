"""`f2ed roster sign` and the rules for what the server may ask of training."""

import pytest

from f2ed import ConfigError
from f2ed.cli.app import app
from f2ed.cli.roster import add, key, new
from f2ed.deployment.roster import Rule, TrainingRules, read_roster


@pytest.fixture
def sign(tmp_path):
    new(tmp_path / "roster.json", name="clinics", authority=tmp_path / "authority.key")
    for client in range(8):
        key(tmp_path / f"clinic_{client}.key")
    add(tmp_path / "roster.json", [tmp_path / f"clinic_{client}.pub" for client in range(8)])
    files = ["roster", "sign", str(tmp_path / "roster.json"), "--authority", str(tmp_path / "authority.key")]

    def run(*options):
        app([*files, "--accept", "unpinned-app", *options], result_action="return_value")
        return read_roster(tmp_path / "roster.json")

    run.verify = lambda: app(
        ["roster", "verify", str(tmp_path / "roster.json"), "--authority", str(tmp_path / "authority.pub")],
        result_action="return_value",
    )
    return run


def test_nothing_is_allowed_unless_it_is_signed(sign):
    assert sign("--shards", "2").training == TrainingRules()


def test_rules_are_signed_kept_replaced_and_removed(sign, capsys):
    first = sign(
        *(
            "--shards",
            "2",
            "--setting",
            "lr=float:0.001..0.5",
            "--setting",
            "epochs=int:1,2",
            "--run-setting",
            "a=str:x",
        ),
        *("--any-run-setting", "--layout", "ab" * 32),
    )
    assert first.training == TrainingRules(
        settings=(Rule("epochs", "int", (1, 2)), Rule("lr", "float", low=0.001, high=0.5)),
        run_config=(Rule("a", "str", ("x",)),),
        any_run_setting=True,
        layout=bytes.fromhex("ab" * 32),
    )
    assert "setting lr=float:0.001..0.5" in capsys.readouterr().out
    assert sign().training == first.training
    assert "setting" not in capsys.readouterr().out
    later = sign("--setting", "lr=float:0.1", "--setting", "epochs=", "--no-any-run-setting", "--layout", "")
    assert later.training == TrainingRules(
        settings=(Rule("lr", "float", (0.1,)),), run_config=first.training.run_config
    )
    said = capsys.readouterr().out
    assert "  setting lr=float:0.1\n" in said
    assert "  no more: setting epochs=int:1,2\n" in said
    sign.verify()
    assert "setting lr=float:0.1\nrun setting a=str:x\nlayout: the first" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "risk", "field"),
    [(["--stateful"], "stateful", "stateful"), (["--message", "evaluate"], "evaluate", "messages")],
)
def test_what_costs_privacy_is_signed_with_its_risk_alone(sign, options, risk, field):
    with pytest.raises(ConfigError, match=f"--accept {risk}"):
        sign("--shards", "2", *options)
    made = sign("--shards", "2", *options, "--accept", risk)
    assert set(made.accepted) == {"unpinned-app", risk}
    assert len(made.accepted) == 2
    assert getattr(made.training, field) != getattr(TrainingRules(), field)


@pytest.mark.parametrize("rule", ["lr", "lr=double", "server-round=int:1..3", "lr=float:2..1"])
def test_a_rule_that_makes_no_sense_is_not_signed(sign, rule):
    with pytest.raises(ConfigError, match="rule"):
        sign("--shards", "2", "--setting", rule)
