"""Rules for settings as people write them: `lr=float:0.0001..0.5`, `epochs=int:1,2,5`, `name=str`."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, get_args

from f2ed.core.errors import ConfigError
from f2ed.deployment.training_rules import SERVERS_OWN, Kind, Rule, Value

__all__ = ["exact_rules", "merged_rules", "parse_rule"]

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
