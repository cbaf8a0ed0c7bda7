"""The rules that an authority signs for what the server may ask of training."""

import math

import msgspec
import pytest

from f2ed import ConfigError
from f2ed.core.errors import Refusal
from f2ed.deployment.rule_text import changed_rules, exact_rules, merged_rules, parse_rule, rule_lines
from f2ed.deployment.training_rules import ANYTHING, Rule, TrainingRules, check_risks

RATE = Rule("lr", "float", low=0.001, high=0.5)


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("lr=float:0.001..0.5", RATE),
        ("lr=float", Rule("lr", "float")),
        ("epochs=int:1,2,5", Rule("epochs", "int", (1, 2, 5))),
        ("epochs=int:-3..3", Rule("epochs", "int", low=-3, high=3)),
        ("shuffle=bool:true", Rule("shuffle", "bool", (True,))),
        ("path=str:../a,b=c", Rule("path", "str", ("../a", "b=c"))),
        ("name=str:", Rule("name", "str", ("",))),
    ],
)
def test_a_rule_is_written_as_text(text, rule):
    assert parse_rule(text) == rule
    assert f"{rule.name}={rule}" == text or rule.values == ("",)
    assert msgspec.json.decode(msgspec.json.encode(rule), type=Rule) == rule


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("lr", "names no kind"),
        ("lr=double", "names no kind"),
        ("lr=0.1", "names no kind"),
        ("=float", "empty name"),
        ("lr=float:", "could not convert"),
        ("lr=float:nan", "not a finite float"),
        ("lr=float:0..inf", "not a finite float"),
        ("lr=float:2..1", "empty range"),
        ("lr=int:1.5", "invalid literal"),
        ("on=bool:1", "neither true nor false"),
        ("on=bool:false..true", "neither true nor false"),
    ],
)
def test_a_rule_that_cannot_be_read_is_refused(text, words):
    with pytest.raises(ConfigError, match=words):
        parse_rule(text)


@pytest.mark.parametrize(
    "given",
    [
        {"kind": "int", "values": (1.0,)},
        {"kind": "int", "values": (True,)},
        {"kind": "float", "values": (1,)},
        {"kind": "float", "low": 0, "high": 1},
        {"kind": "float", "low": 0.0},
        {"kind": "float", "low": 0.0, "high": 1.0, "values": (0.5,)},
        {"kind": "str", "low": 0.0, "high": 1.0},
    ],
)
def test_a_rule_in_a_file_that_contradicts_itself_is_refused(given):
    with pytest.raises(ValueError, match="the rule for 'k'"):
        Rule("k", **given)
    with pytest.raises(msgspec.ValidationError, match="the rule for 'k'"):
        msgspec.json.decode(msgspec.json.encode({"name": "k", **given}), type=Rule)


ALLOWED = [
    (RATE, 0.001, True), (RATE, 0.5, True), (RATE, 0.50001, False), (RATE, 0, False), (RATE, math.nan, False),
    (RATE, math.inf, False), (RATE, "0.1", False), (RATE, [0.1], False), (Rule("k", "float"), math.inf, False),
    (Rule("k", "int", (0, 1)), True, False), (Rule("k", "int"), True, False), (Rule("k", "int", (0, 1)), 1.0, False),
    (Rule("k", "int", low=1, high=3), 3, True), (Rule("k", "int", low=1, high=3), 4, False),
    (Rule("k", "bool"), 1, False), (Rule("k", "bool"), False, True), (Rule("k", "bool", (True,)), False, False),
    (Rule("k", "str", ("a",)), "a", True), (Rule("k", "str", ("a",)), b"a", False), (Rule("k", "str"), "x", True),
]  # fmt: skip


@pytest.mark.parametrize(("rule", "value", "allowed"), ALLOWED)
def test_a_rule_allows_one_kind_of_value_in_its_range(rule, value, allowed):
    assert rule.allows(value) is allowed
    rules = TrainingRules(settings=(rule,), run_config=(rule,))
    for check in (rules.check_settings, rules.check_run_config):
        if allowed:
            check({rule.name: value})
        else:
            with pytest.raises(Refusal, match=f"setting '{rule.name}' is .*the roster allows {rule}"):
                check({rule.name: value})


@pytest.mark.parametrize("number", [True, 0, -1, 2**63, 1.0, "1", None])
def test_the_number_of_the_round_is_a_positive_integer(number):
    for rules in (TrainingRules(), ANYTHING):
        rules.check_settings({"server-round": 1})
        with pytest.raises(Refusal, match="'server-round' is"):
            rules.check_settings({"server-round": number})


def test_without_a_rule_nothing_is_allowed_and_the_refusal_says_how_to():
    with pytest.raises(Refusal, match=r"'lr' is not in the roster's rules.*--setting 'lr=float'"):
        TrainingRules().check_settings({"server-round": 1, "lr": 0.1})
    with pytest.raises(Refusal, match=r"'on' is not in the roster's rules.*--run-setting 'on=bool'"):
        TrainingRules().check_run_config({"on": True})
    with pytest.raises(Refusal, match="--any-setting"):
        TrainingRules().check_settings({"layers": [1, 2]})


def test_any_setting_leaves_the_rules_that_there_are_in_force():
    rules = TrainingRules(settings=(RATE,), any_setting=True, run_config=(RATE,), any_run_setting=True)
    rules.check_settings({"layers": [1, 2], "lr": 0.1})
    rules.check_run_config({"layers": 3, "lr": 0.1})
    for check in (rules.check_settings, rules.check_run_config):
        with pytest.raises(Refusal, match="'lr' is"):
            check({"lr": 1.0})


def test_a_run_that_lacks_a_setting_is_refused():
    with pytest.raises(Refusal, match="lacks the run setting 'lr'"):
        TrainingRules(run_config=(RATE,)).check_run_config({})


def test_run_settings_of_the_server_need_no_rule():
    TrainingRules().check_run_config({"f2ed-roster": "roster.json", "f2ed-checkpoint": ""})


def test_the_rules_of_an_app_allow_its_own_settings_alone():
    config = {"lr": 0.1, "epochs": 3, "on": True, "name": "x", "f2ed-roster": "test:10"}
    rules = TrainingRules(run_config=exact_rules(config))
    rules.check_run_config(config)
    rules.check_run_config(config | {"f2ed-roster": "other"})
    for name, other in (("lr", 0.2), ("lr", 1), ("epochs", 4), ("on", 1), ("name", "y"), ("more", 1)):
        with pytest.raises(Refusal, match=f"the run setting '{name}'"):
            rules.check_run_config(config | {name: other})


@pytest.mark.parametrize("value", [b"x", [1], None, {"a": 1}])
def test_an_app_has_no_settings_of_another_kind(value):
    with pytest.raises(ConfigError, match="the run setting 'k' is a"):
        exact_rules({"k": value})


def test_an_app_with_a_setting_that_is_not_finite_is_refused():
    with pytest.raises(ConfigError, match="not a finite float"):
        exact_rules({"k": math.inf})


def test_new_rules_replace_older_ones_and_the_rest_stays():
    before = merged_rules((), ["b=int", "a=int"])
    assert [str(rule) for rule in before] == ["int", "int"]
    assert [rule.name for rule in merged_rules(before, ["a=float", "c=str"])] == ["a", "b", "c"]
    assert merged_rules(before, ["a="]) == (Rule("b", "int"),)
    with pytest.raises(ConfigError, match="names no kind"):
        merged_rules(before, ["unknown="])


@pytest.mark.parametrize("kind", ["evaluate", "query", "evaluate.own", "train.own", "get_parameters", "", "trainx"])
def test_other_messages_are_refused_by_name(kind):
    with pytest.raises(Refusal, match=f"of type '{kind}'.*the roster allows train"):
        TrainingRules().check_message(kind)


def test_a_listed_message_is_allowed_by_its_full_name():
    rules = TrainingRules(messages=("train", "evaluate"))
    rules.check_message("evaluate")
    with pytest.raises(Refusal, match=r"'evaluate\.own'"):
        rules.check_message("evaluate.own")


@pytest.mark.parametrize("messages", [[], ["evaluate"], ["train", "train.own"], ["train", "get_parameters"]])
def test_messages_that_cannot_be_allowed_are_refused(messages):
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"messages": messages}, TrainingRules)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"settings": (RATE, RATE)}, "two rules for the setting 'lr'"),
        ({"run_config": (RATE, RATE)}, "two rules for the run setting 'lr'"),
        ({"settings": (Rule("server-round", "int"),)}, "the strategy sets itself"),
        ({"run_config": (Rule("f2ed-roster", "str"),)}, "is for the server"),
        ({"layout": b"x"}, "a layout of 1 bytes"),
    ],
)
def test_rules_that_contradict_each_other_are_refused(given, words):
    with pytest.raises(ValueError, match=words):
        TrainingRules(**given)


def test_another_layout_than_the_signed_one_is_refused():
    rules = TrainingRules(layout=bytes(32))
    rules.check_layout(bytes(32))
    TrainingRules().check_layout(b"1" * 32)
    with pytest.raises(Refusal, match="a model of layout 3131"):
        rules.check_layout(b"1" * 32)


def test_what_costs_privacy_needs_an_accepted_risk():
    check_risks(TrainingRules(), ())
    for risk, rules in (
        ("stateful", TrainingRules(stateful=True)),
        ("evaluate", TrainingRules(messages=("train", "query"))),
    ):
        check_risks(rules, (risk,))
        with pytest.raises(ValueError, match=f"--accept {risk}"):
            check_risks(rules, ())


def test_what_the_authority_leaves_out_stays():
    first = changed_rules(
        TrainingRules(), settings=["lr=float"], run_settings=["a=int:1"], messages=["evaluate"], layout="00" * 32
    )
    assert first.messages == ("train", "evaluate")
    assert first.layout == bytes(32)
    assert changed_rules(first) == first
    later = changed_rules(first, settings=["lr="], any_run_setting=True, messages=["train"], layout="", stateful=True)
    assert later == TrainingRules(run_config=first.run_config, any_run_setting=True, stateful=True)
    assert changed_rules(later, any_run_setting=False, stateful=False).any_run_setting is False
    assert list(rule_lines(first)) == [
        "messages: train, evaluate",
        "setting lr=float",
        "run setting a=int:1",
        f"layout: {'00' * 32}",
    ]
    assert list(rule_lines(later))[2:] == [
        "any other run setting",
        "layout: the first that a node trains",
        "training keeps its state between rounds",
    ]


@pytest.mark.parametrize(
    "given",
    [
        {"messages": ["train.own"]},
        {"messages": ["get_parameters"]},
        {"layout": "zz"},
        {"layout": "00"},
        {"settings": ["server-round=int"]},
        {"run_settings": ["f2ed-roster=str"]},
    ],
)
def test_rules_that_no_node_could_follow_are_not_signed(given):
    with pytest.raises(ConfigError, match="cannot be signed"):
        changed_rules(TrainingRules(), **given)
