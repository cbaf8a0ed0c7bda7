"""Plug-ins of your own: by value in Python, by import path in a file, or by name from an installed package.

    simulate(estimator=MyRule(0.2), …)
    estimator = { kind = "imported", factory = "mine:MyRule", settings = { contamination = 0.2 } }
    estimator = "my-rule"          # a package's entry point in the group f2ed.estimator

A plug-in of your own is a frozen struct like those of the registries: it derives from `Estimator`, `Attack`, `Dataset`,
`Partitioner` or `ServerOptimizer`. Models are any `nn.Module`, losses and metrics any function of outputs and targets.
"""

from collections.abc import Mapping
from functools import cache
from importlib.metadata import entry_points
from typing import Any, get_args

import msgspec

from f2ed.attacks import AnyAttack, Attack
from f2ed.core.errors import ConfigError, first_line
from f2ed.core.imports import imported, path_of, source_digest
from f2ed.estimators import AnyEstimator, Estimator
from f2ed.learning import AnyDataset, AnyPartition
from f2ed.learning.datasets import Dataset
from f2ed.learning.models import Imported
from f2ed.learning.partition import Partitioner
from f2ed.protocol.aggregation import AnyServerOptimizer, ServerOptimizer

__all__ = [
    "IMPORTED",
    "check_hashable",
    "factory_of",
    "is_own",
    "made",
    "named",
    "plain",
    "sources",
    "with_entry_points",
]

IMPORTED = "imported"
_BASES: dict[str, tuple[Any, Any]] = {
    "estimator": (Estimator, AnyEstimator),
    "inner": (Estimator, AnyEstimator),
    "attack": (Attack, AnyAttack),
    "data": (Dataset, AnyDataset),
    "partition": (Partitioner, AnyPartition),
    "server_optimizer": (ServerOptimizer, AnyServerOptimizer),
}
"""By setting: what a plug-in derives from, and the registry."""


def is_own(value: Any, setting: str) -> bool:
    """Return whether a value is a plug-in that is not in the registry."""
    if setting not in _BASES:
        return False
    base, registry = _BASES[setting]
    return isinstance(value, base) and not isinstance(value, get_args(registry))


def factory_of(table: Any, setting: str) -> Any:
    """Return the class or function that a table imports; None if it imports nothing."""
    if setting not in _BASES or not isinstance(table, Mapping) or table.get("kind") != IMPORTED:
        return None
    if extra := [name for name in table if name not in ("kind", "factory", "settings")]:
        raise ConfigError(f"{setting}.{extra[0]}: there is no such setting; put the settings of your own into settings")
    path, settings = table.get("factory"), table.get("settings", {})
    if not isinstance(path, str) or not isinstance(settings, Mapping):
        raise ConfigError(
            f'{setting}: write {{ kind = "imported", factory = "module:Name", settings = {{…}} }}; found {dict(table)}'
        )
    return _about(setting, lambda: imported(path))


def made(table: Any, setting: str) -> Any:
    """Return the plug-in that a table imports."""
    factory, base = factory_of(table, setting), _BASES[setting][0]
    settings = dict(table.get("settings", {}))
    if not callable(factory):
        raise ConfigError(f"{setting}: {table['factory']} is a {type(factory).__name__}; a class is needed")
    try:
        plugin = factory(**settings)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"{setting}: {table['factory']} with {settings}: {error}") from None
    except Exception as error:
        failed = f"{type(error).__name__}: {first_line(error)}"
        raise ConfigError(f"{setting}: {table['factory']} with {settings} failed: {failed}") from error
    if not isinstance(plugin, base):
        raise ConfigError(
            f"{setting}: {table['factory']} made a {type(plugin).__name__}; it must derive from {base.__module__}."
            f"{base.__name__}"
        )
    check_hashable(plugin, setting)
    return plugin


def named(value: Any, setting: str) -> str:
    """Return the import path of a function or class that was given by value."""
    if not hasattr(value, "__qualname__"):
        raise ConfigError(
            f"{setting}: found an instance of {type(value).__name__}; give a function or a class, which the "
            "record can name"
        )
    return path_of(value)


def check_hashable(plugin: Any, setting: str) -> None:
    """Refuse a plug-in with a list or a dictionary among its settings: runs are told apart by theirs."""
    try:
        hash(plugin)
    except TypeError:
        raise ConfigError(
            f"{setting}: {type(plugin).__name__} has a list or a dictionary among its settings; use a tuple"
        ) from None


def plain(value: Any, setting: str = "") -> Any:
    """Return settings in plain values; a plug-in of your own is stated by its import path and its settings."""
    if is_own(value, setting):
        fields = {name: getattr(value, name) for name in value.__struct_fields__}
        stated = {name: plain(each, name) for name, each in fields.items() if each is not msgspec.UNSET}
        return {"kind": IMPORTED, "factory": path_of(type(value)), "settings": stated}
    if isinstance(value, msgspec.Struct):
        inner = {name: getattr(value, name) for name in value.__struct_fields__}
        own = {name: plain(each, name) for name, each in inner.items() if _holds_own(each, name)}
        return {**msgspec.to_builtins(value), **own}
    return msgspec.to_builtins(value)


def sources(settings: Any) -> dict[str, str]:
    """Return SHA-256 of the source behind every import path in plain settings."""
    if not isinstance(settings, Mapping):
        return {}
    found = {name: digest for inner in settings.values() for name, digest in sources(inner).items()}
    if settings.get("kind") == IMPORTED:
        found[str(settings["factory"])] = source_digest(str(settings["factory"]))
    return found


def with_entry_points(table: Any, setting: str) -> Any:
    """Replace the name of an installed package's plug-in by its import path."""
    if not isinstance(table, Mapping) or not isinstance(kind := table.get("kind"), str):
        return table
    path = _installed(setting).get(kind)
    if path is None:
        return table
    rest = {name: value for name, value in table.items() if name != "kind"}
    return {"kind": IMPORTED, "factory": path, "settings": rest}


@cache
def _installed(setting: str) -> dict[str, str]:
    group = "estimator" if setting == "inner" else setting
    registry = _BASES[setting][1] if setting in _BASES else Imported
    taken = {str(each.__struct_config__.tag) for each in get_args(registry)}
    return {each.name: each.value for each in entry_points(group=f"f2ed.{group}") if each.name not in taken}


def _holds_own(value: Any, setting: str) -> bool:
    return is_own(value, setting) or (
        isinstance(value, msgspec.Struct)
        and any(_holds_own(getattr(value, name), name) for name in value.__struct_fields__)
    )


def _about(setting: str, load: Any) -> Any:
    try:
        return load()
    except ConfigError as error:
        raise ConfigError(f"{setting}: {error}") from None
