"""What the server may ask of the training function, as the authority signed it.

Every setting is bound to the masks, so members of a shard that were given different ones open nothing. The rules bound
what the server may ask of all members alike: a learning rate of 10^9, a hundred thousand epochs, a model of another
shape. What no rule allows is refused by name.
"""

from collections.abc import Iterable, Mapping
from math import isfinite
from typing import Annotated, Any, Literal, final

import msgspec
from msgspec import UNSET, Meta, UnsetType

from f2ed.core.errors import Refusal
from f2ed.deployment.masked_metrics import MetricRule
from f2ed.protocol.aggregation import Buffers

__all__ = [
    "ANYTHING",
    "EVALUATE",
    "SERVERS_OWN",
    "SERVER_ROUND",
    "TRAIN",
    "Kind",
    "Rule",
    "TrainingRules",
    "Value",
    "check_risks",
]

TRAIN = "train"
"""The type of message that asks for an update: no action, since the strategy sends none."""
EVALUATE = "evaluate"
"""The type of message that asks to evaluate: under masks, or in the clear where the roster allows that."""
SERVER_ROUND = "server-round"
"""The setting that the strategy itself sends: the number of the round in this run, from 1."""
SERVERS_OWN = "f2ed-"
"""Run settings that begin like this are the server's: bound, without a rule, and not shown to training."""

Kind = Literal["bool", "int", "float", "str"]
Value = bool | int | float | str
MessageType = Annotated[str, Meta(pattern=r"^(train|(evaluate|query)(\.[A-Za-z_][A-Za-z0-9_]*)?)$", max_length=80)]
Layout = Annotated[bytes, Meta(max_length=32)]

_TYPES: dict[str, type] = {"bool": bool, "int": int, "float": float, "str": str}
_ROUND_LIMIT = 2**63


@final
class Rule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What one setting may be: of exactly one kind, and in a range or among some values where these are given."""

    name: Annotated[str, Meta(max_length=200)]
    kind: Kind
    values: tuple[Value, ...] = ()
    low: int | float | None = None
    high: int | float | None = None

    def __post_init__(self) -> None:
        """Refuse a rule that contradicts itself."""
        if not self.name:
            raise ValueError("a rule with an empty name")
        ends = [end for end in (self.low, self.high) if end is not None]
        if any(not _is_of(self.kind, value) for value in (*self.values, *ends)):
            raise ValueError(f"the rule for {self.name!r} has a value that is not a finite {self.kind}")
        if len(ends) == 1 or (ends and (self.values or self.kind not in {"int", "float"})):
            raise ValueError(f"the rule for {self.name!r} needs values, or both ends of a range of numbers, or neither")
        if ends and ends[0] > ends[1]:
            raise ValueError(f"the rule for {self.name!r} has an empty range, {ends[0]} to {ends[1]}")

    def allows(self, value: object) -> bool:
        """Return whether this value may be sent: True is not 1, and 1 is not 1.0."""
        if not _is_of(self.kind, value):
            return False
        if self.low is not None and self.high is not None:
            return self.low <= value <= self.high  # type: ignore[operator]  # a number, as was just checked
        return not self.values or value in self.values

    def __str__(self) -> str:
        """Write it as on the command line."""
        if self.low is not None:
            return f"{self.kind}:{self.low}..{self.high}"
        return self.kind + ":" * bool(self.values) + ",".join(map(_text, self.values))


@final
class TrainingRules(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What a node lets the server ask for. By default: to train, without any setting but the number of the round."""

    messages: tuple[MessageType, ...] = (TRAIN,)
    """The types of message that nodes answer, with the action where there is one."""
    settings: tuple[Rule, ...] = ()
    """For what comes with each request: the strategy's `train_config`."""
    any_setting: bool = False
    """Whether settings without a rule are allowed."""
    run_config: tuple[Rule, ...] = ()
    """For the run's configuration, which the app and `flwr run --run-config` set."""
    any_run_setting: bool = False
    """Whether run settings without a rule are allowed."""
    layout: Layout = b""
    """SHA-256 of the names, types and shapes of the model's arrays; if empty, each node pins the first that it sees."""
    stateful: bool = False
    """Whether training keeps `context.state` between rounds."""
    metrics: tuple[MetricRule, ...] | UnsetType = UNSET
    """What clients measure in an evaluation under masks; left out where there is none."""

    def __post_init__(self) -> None:
        """Refuse rules that contradict each other."""
        for what, rules in (("setting", self.settings), ("run setting", self.run_config)):
            names = [rule.name for rule in rules]
            if len(set(names)) < len(names):
                raise ValueError(f"two rules for the {what} {_twice(names)!r}; give one")
        if any(rule.name == SERVER_ROUND for rule in self.settings):
            raise ValueError(f"a rule for {SERVER_ROUND!r}, which the strategy sets itself; remove it")
        if own := [rule.name for rule in self.run_config if rule.name.startswith(SERVERS_OWN)]:
            raise ValueError(f"a rule for {own[0]!r}, which is for the server and is not shown to training; remove it")
        if TRAIN not in self.messages:
            raise ValueError(
                f"the messages {', '.join(self.messages)} lack {TRAIN!r}, without which nothing is learned"
            )
        if len({rule.name for rule in self.masked_metrics}) < len(self.masked_metrics):
            raise ValueError("two rules for one metric; give one")
        if len(self.layout) not in {0, 32}:
            raise ValueError(f"a layout of {len(self.layout)} bytes; it is SHA-256, or empty")

    @property
    def masked_metrics(self) -> tuple[MetricRule, ...]:
        """The metrics that clients send in sums under masks."""
        return self.metrics or ()

    def check_evaluation(self) -> None:
        """Refuse to evaluate under masks where the authority named no metrics."""
        if not self.masked_metrics:
            raise Refusal(
                "a request to evaluate under masks, and the roster names no metrics; the authority allows some with "
                "f2ed roster sign --metric"
            )

    def check_message(self, kind: str) -> None:
        """Refuse a type of message that is not listed."""
        if kind in self.messages:
            return
        allow = (
            ", since replies to it leave in the clear; if that is acceptable, the authority allows it with f2ed roster "
            f"sign --message {kind[:80]} --accept evaluate"
            if kind.partition(".")[0] in {"evaluate", "query"}
            else ""
        )
        raise Refusal(f"a request of type {kind[:80]!r}; the roster allows {', '.join(self.messages)} alone{allow}")

    def check_settings(self, given: Mapping[str, Any]) -> None:
        """Refuse settings of a request that no rule allows."""
        number = given.get(SERVER_ROUND, 1)
        if type(number) is not int or not 1 <= number < _ROUND_LIMIT:
            raise Refusal(f"the setting {SERVER_ROUND!r} is {_shown(number)}; it is the number of a round, from 1")
        rest = {name: value for name, value in given.items() if name != SERVER_ROUND}
        _check("setting", "--setting", self.settings, rest, others=self.any_setting)

    def check_run_config(self, given: Mapping[str, Any]) -> None:
        """Refuse a run's configuration that no rule allows, or that lacks something that has a rule."""
        rest = {name: value for name, value in given.items() if not name.startswith(SERVERS_OWN)}
        _check("run setting", "--run-setting", self.run_config, rest, others=self.any_run_setting)
        if missing := [rule for rule in self.run_config if rule.name not in given]:
            raise Refusal(
                f"the run lacks the run setting {missing[0].name!r}, for which the roster has a rule ({missing[0]}); "
                "run the app that the roster was signed for"
            )

    def check_layout(self, found: bytes) -> None:
        """Refuse a model of another layout than the one that was signed, if one was."""
        if self.layout and found != self.layout:
            raise Refusal(
                f"a model of layout {found.hex()}; the roster was signed for {self.layout.hex()}. For another model "
                "the authority signs it again with f2ed roster sign --layout"
            )


ANYTHING = TrainingRules(any_setting=True, any_run_setting=True)
"""For simulations, and where one person runs all parts: any setting is allowed, and still bound."""


def check_risks(rules: TrainingRules, accepted: Iterable[str], buffers: Buffers | None = None) -> None:
    """Raise `ValueError` where rules need a risk that was not accepted."""
    local = buffers is not None and buffers.policy == "local"
    needed = {"stateful": rules.stateful or local, "evaluate": len(rules.messages) > 1}
    if missing := [risk for risk, needs in needed.items() if needs and risk not in accepted]:
        why = {
            "stateful": "the state of one member may differ from the others' without a trace in the masks",
            "evaluate": "replies to evaluate and query leave a node in the clear",
        }
        raise ValueError(f"{why[missing[0]]}; if that is acceptable, sign with --accept {missing[0]}")


def _check(what: str, option: str, rules: Iterable[Rule], given: Mapping[str, Any], *, others: bool) -> None:
    """Refuse the first value, in the order of the names, that its rule does not allow or that has none."""
    named = _named(rules)
    for name in sorted(given):
        rule, value = named.get(name), given[name]
        if rule is None and not others:
            raise Refusal(
                f"the {what} {name[:80]!r} is not in the roster's rules; the authority allows it with f2ed roster sign "
                + _option(option, name, value)
            )
        if rule is not None and not rule.allows(value):
            raise Refusal(
                f"the {what} {name[:80]!r} is {_shown(value)}; the roster allows {rule}. For another value the "
                f"authority signs it again with f2ed roster sign {option}"
            )


def _named(rules: Iterable[Rule]) -> dict[str, Rule]:
    return {rule.name: rule for rule in rules}


def _is_of(kind: str, value: object) -> bool:
    return type(value) is _TYPES[kind] and not (isinstance(value, float) and not isfinite(value))


def _twice(names: list[str]) -> str:
    return next(name for name in names if names.count(name) > 1)


def _option(option: str, name: str, value: object) -> str:
    """Return what the authority adds to its command; lists and bytes have no rules of their own."""
    kind = next((kind for kind, type_ in _TYPES.items() if type(value) is type_), None)
    return f"{option} '{name[:80]}={kind}'" if kind else f"--any-{option.removeprefix('--')}"


def _shown(value: object) -> str:
    return f"{str(value)[:80]!r} ({type(value).__name__})"


def _text(value: Value) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
