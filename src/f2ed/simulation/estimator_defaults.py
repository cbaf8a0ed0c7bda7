"""The estimator of a run where its settings leave something out: the contamination follows from the federation."""

from collections.abc import Iterator
from functools import cache
from typing import Any, get_args

import msgspec
import numpy as np

from f2ed.core.errors import ConfigError
from f2ed.core.randomness import stream
from f2ed.estimators import AnyEstimator, BoundedEstimator, Estimator, Mean
from f2ed.guarantees import recommended_rule
from f2ed.protocol.helpers import HelpersProtocol
from f2ed.simulation.config_errors import explain
from f2ed.simulation.own import IMPORTED, factory_of, is_own, made
from f2ed.simulation.own_failures import own_code

__all__ = ["check_rows", "completed", "default_rule"]


class _Place(msgspec.Struct):
    """Where errors find the estimator."""

    estimator: AnyEstimator


def default_rule(helpers: HelpersProtocol | None, clients: int, malicious: int) -> dict[str, Any]:
    """Return the rule of a run that names none: FilterL2, or with helpers what the planner recommends."""
    if helpers is None:
        return {"kind": "filter-l2"}
    return {"kind": recommended_rule(helpers, clients=clients, malicious=malicious).rule.__struct_config__.tag}


def completed(table: dict[str, Any], *, rows: int, malicious: int) -> AnyEstimator:
    """Fill in the contamination where it is left out: the worst case, or the most that the rule tolerates if less."""
    if not any(_left_out(table, rows)):
        estimator = _estimator(table)
        check_rows(estimator, rows)
        return estimator
    refusal: ConfigError | None = None
    for count in range(min(malicious, (rows - 1) // 2), -1, -1):
        estimator = _estimator(_filled(table, count, rows))
        try:
            check_rows(estimator, rows)
        except ConfigError as error:
            refusal = error
        else:
            return estimator
    raise refusal or ConfigError(f"estimator: found {rows} rows; at least 1 is needed")


def _estimator(table: dict[str, Any]) -> AnyEstimator:
    if factory_of(table, "estimator") is not None:
        return made(table, "estimator")  # type: ignore[no-any-return]  # of your own, in no registry
    if is_own(inner := table.get("inner"), "inner") or factory_of(inner, "inner") is not None:
        own = inner if is_own(inner, "inner") else made(inner, "inner")
        return msgspec.structs.replace(_estimator(table | {"inner": {"kind": "mean"}}), inner=own)
    try:
        return msgspec.convert(table, AnyEstimator)  # type: ignore[no-any-return]  # a union is no type to mypy
    except msgspec.ValidationError as error:
        given = {"estimator": table}
        text = str(error).replace("`$", "`$.estimator") if "`$" in str(error) else f"{error} - at `$.estimator`"
        raise ConfigError(explain(text, given, _Place)) from None


@cache
def check_rows(estimator: Estimator, rows: int) -> None:
    """Try the estimator on a few numbers; refuse it if it does not work with this many rows."""
    numbers = 1 + stream(0, "try out").standard_normal((rows, 4))
    with own_code(estimator=estimator):
        try:
            estimator(numbers, tensors=(4,), rng=stream(0, "lots"), root=np.ones(4))
        except ConfigError as error:
            raise ConfigError(f"estimator: {error}") from None


@cache
def _rules() -> dict[str, type[Estimator]]:
    return {kind.__struct_config__.tag: kind for kind in get_args(AnyEstimator)}


def _rule(table: dict[str, Any]) -> type[Estimator]:
    """Return the class of a rule; a function that makes one counts as a rule without a bound."""
    factory = factory_of(table, "estimator")
    if factory is not None:
        return factory if isinstance(factory, type) and issubclass(factory, Estimator) else Mean
    return _rules().get(table.get("kind", ""), Mean)


def _stated(table: dict[str, Any]) -> dict[str, Any]:
    """Return where the settings of a rule stand: in its table, or in `settings` for one of your own."""
    return table.setdefault("settings", {}) if table.get("kind") == IMPORTED else table


def _left_out(table: dict[str, Any], rows: int) -> Iterator[str]:
    if issubclass(_rule(table), BoundedEstimator) and not {"contamination", "f"} & _stated(table).keys():
        yield "contamination"
    if isinstance(table.get("inner"), dict):
        yield from _left_out(table["inner"], rows)


def _filled(table: dict[str, Any], malicious: int, rows: int) -> dict[str, Any]:
    rule = _rule(table)
    filled = dict(table)
    if table.get("kind") == IMPORTED:
        filled["settings"] = dict(_stated(table))
    if issubclass(rule, BoundedEstimator) and "f" not in _stated(filled):
        _stated(filled).setdefault("contamination", malicious / rows)
    if isinstance(table.get("inner"), dict):
        inner_rows = rule.inner_rows(rows, table)
        filled["inner"] = _filled(table["inner"], min(malicious, (inner_rows - 1) // 2), inner_rows)
    return filled
