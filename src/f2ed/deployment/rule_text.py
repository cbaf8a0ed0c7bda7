"""Rules for settings as people write them: `lr=float:0.0001..0.5`, `epochs=int:1,2,5`, `name=str`."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, get_args

import msgspec

from f2ed.core.errors import ConfigError
from f2ed.deployment.masked_metrics import merged_metrics
from f2ed.deployment.training_rules import SERVERS_OWN, TRAIN, Kind, Rule, TrainingRules, Value

__all__ = ["changed_rules", "exact_rules", "merged_rules", "parse_rule", "rule_lines"]

_FORM = (
    "write NAME=KIND for any value of a kind, NAME=KIND:VALUE,VALUE for some, NAME=KIND:LOW..HIGH for a range; KIND is "
    "bool, int, float or str"
)


def parse_rule(text: str) -> Rule:
    """Read a rule, or raise `ConfigError`."""
    name, _, rest = text.partition("=")
    kind, colon, spec = rest.partition(":")
    if kind not in get_args(Kind):
        raise ConfigError(f"the rule {text!r} names no kind of value; {_FORM}")
    read = _READERS[kind]
    low, dots, high = spec.partition("..")
    try:
        if dots and kind in {"int", "float"}:
            return Rule(name, kind, low=read(low), high=read(high))  # type: ignore[arg-type]  # one of the kinds
        return Rule(name, kind, tuple(map(read, spec.split(","))) if colon else ())  # type: ignore[arg-type]
    except ValueError as error:
        raise ConfigError(f"the rule {text!r} cannot be read ({error}); {_FORM}") from None


def merged_rules(before: Iterable[Rule], texts: Iterable[str]) -> tuple[Rule, ...]:
    """Return rules in the order of their names, of which new ones replace older ones; `NAME=` removes one."""
    rules = {rule.name: rule for rule in before}
    for text in texts:
        if text.endswith("=") and text[:-1] in rules:
            del rules[text[:-1]]
        else:
            rule = parse_rule(text)
            rules[rule.name] = rule
    return tuple(rules[name] for name in sorted(rules))


def changed_rules(
    before: TrainingRules,
    *,
    settings: Iterable[str] = (),
    run_settings: Iterable[str] = (),
    any_setting: bool | None = None,
    any_run_setting: bool | None = None,
    messages: Iterable[str] | None = None,
    layout: str | None = None,
    stateful: bool | None = None,
    metrics: Sequence[str] = (),
) -> TrainingRules:
    """Return rules with what the authority changes; whatever is left out stays. `layout` is in hexadecimal."""
    listed = before.messages if messages is None else (TRAIN, *(each for each in messages if each != TRAIN))
    try:
        return msgspec.convert(
            {
                "messages": listed,
                "settings": merged_rules(before.settings, settings),
                "any_setting": before.any_setting if any_setting is None else any_setting,
                "run_config": merged_rules(before.run_config, run_settings),
                "any_run_setting": before.any_run_setting if any_run_setting is None else any_run_setting,
                "layout": before.layout if layout is None else bytes.fromhex(layout),
                "stateful": before.stateful if stateful is None else stateful,
            }
            | ({"metrics": named} if (named := merged_metrics(before.masked_metrics, metrics)) else {}),
            TrainingRules,
        )
    except ValueError as error:
        raise ConfigError(f"these rules for training cannot be signed: {error}") from None


def rule_lines(rules: TrainingRules) -> Iterator[str]:
    """Yield the rules as people read them."""
    yield f"messages: {', '.join(rules.messages)}"
    for what, some, others in (
        ("setting", rules.settings, rules.any_setting),
        ("run setting", rules.run_config, rules.any_run_setting),
    ):
        yield from (f"{what} {rule.name}={rule}" for rule in some)
        if others:
            yield f"any other {what}"
    yield f"layout: {rules.layout.hex() or 'the first that a node trains'}"
    yield from (f"metric {rule.name}={rule}, in sums under masks" for rule in rules.masked_metrics)
    if rules.stateful:
        yield "training keeps its state between rounds"


def exact_rules(run_config: Mapping[str, Any]) -> tuple[Rule, ...]:
    """Return rules that allow exactly these run settings: an app's own, from its `pyproject.toml`."""
    names = sorted(name for name in run_config if not name.startswith(SERVERS_OWN))
    return tuple(_exact(name, run_config[name]) for name in names)


def _exact(name: str, value: object) -> Rule:
    kind = type(value).__name__
    if kind not in get_args(Kind):
        raise ConfigError(f"the run setting {name!r} is a {kind}; it must be a bool, int, float or str")
    try:
        return Rule(name, kind, (value,))  # type: ignore[arg-type]  # one of the kinds
    except ValueError as error:
        raise ConfigError(str(error)) from None


def _bool(text: str) -> bool:
    if text not in {"true", "false"}:
        raise ValueError(f"{text!r} is neither true nor false")
    return text == "true"


_READERS: dict[str, Callable[[str], Value]] = {"bool": _bool, "int": int, "float": float, "str": str}
