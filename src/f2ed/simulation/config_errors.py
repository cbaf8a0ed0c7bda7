"""Errors in settings, worded for the person who wrote them: where, what was found, what is accepted."""

import re
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

import msgspec

from f2ed.core.settings import choices

__all__ = ["aliases", "explain", "named_code"]

_PATH = re.compile(r"^(?P<what>.*?)(?: - at `(?P<path>\$.*)`)?$", re.DOTALL)
_STEP = re.compile(r"\.?([\w-]+|\[\d*\.*\])")


def explain(message: str, given: Mapping[str, Any], wanted: type) -> str:
    """Rewrite msgspec's message for settings of a type: the path as in the file, and what is accepted there."""
    found = _PATH.match(message)
    what, path = (found["what"], found["path"] or "$") if found else (message, "$")
    steps = _STEP.findall(path[1:])
    here, value = list(_types(wanted, steps, given)), _value(given, steps)
    place = ".".join(steps).replace(".[", "[")
    if unknown := re.search(r"unknown field `(.+)`", what):
        place = f"{place}.{unknown[1]}" if place else unknown[1]
        return f"{place}: there is no such setting; {_hint(unknown[1], _fields(here))}"
    if steps and steps[-1] in {"kind", "type"} and "Invalid value" in what:
        registry = list(_types(wanted, steps[:-1], {}))
        return f"{place}: there is no {value!r}; {_hint(str(value), _kinds(registry), aliases(registry))}"
    if missing := re.search(r"missing required field `(.+)`", what):
        place = f"{place}.{missing[1]}" if place else missing[1]
        return f"{place} is missing; state it"
    if "Invalid enum value" in what:
        what = f"expected one of {', '.join(map(repr, _choices(wanted, steps)))}"
    if callable(value):
        return f"{place}: found {named_code(value)}; give an instance of it, a name, or a table with a kind"
    what = what.replace(" | null`", "`").replace("`object", "`table")
    shown = "" if value is _ABSENT or isinstance(value, Mapping) else f" (found {value!r})"
    return f"{place}: {what[:1].lower()}{what[1:]}{shown}" if place else f"{what}{shown}"


def named_code(value: Any) -> str:
    """Return what a class or a function is called, and any other value as it is written."""
    if not callable(value) or isinstance(value, msgspec.Struct):
        return repr(value)
    return f"the {'class' if isinstance(value, type) else 'function'} {getattr(value, '__name__', 'without a name')}"


def _choices(wanted: Any, steps: list[str]) -> list[str]:
    """Return the words that a setting may be."""
    hints = [get_type_hints(struct, include_extras=True) for struct in _types(wanted, steps[:-1], {})]
    return sorted({word for each in hints for word in choices(each.get(steps[-1]))})


def aliases(registry: Any) -> dict[str, str]:
    """Return the aliases that the plug-ins of a union, or of a list of classes, declare, and the kind of each."""
    plugins = registry if isinstance(registry, list) else list(_structs(registry))
    return {alias: plugin.__struct_config__.tag for plugin in plugins for alias in getattr(plugin, "aliases", ())}


_ABSENT = object()


def _value(given: Any, steps: list[str]) -> Any:
    for step in steps:
        if not isinstance(given, Mapping) or step not in given:
            return _ABSENT
        given = given[step]
    return given


def _types(wanted: Any, steps: list[str], given: Any) -> Iterator[Any]:
    """Yield the structs that the path may lead to; a table's kind decides among those of a registry."""
    structs = list(_structs(wanted))
    kind = (given.get("kind") or given.get("type")) if isinstance(given, Mapping) else None
    if kind is not None and any(struct.__struct_config__.tag == kind for struct in structs):
        structs = [struct for struct in structs if struct.__struct_config__.tag == kind]
    if not steps:
        yield from structs
        return
    for struct in structs:
        hints = get_type_hints(struct, include_extras=True)
        if steps[0] in hints:
            inside = given.get(steps[0]) if isinstance(given, Mapping) else None
            yield from _types(hints[steps[0]], steps[1:], inside)


def _structs(wanted: Any) -> Iterator[Any]:
    if get_origin(wanted) is Annotated:
        yield from _structs(get_args(wanted)[0])
    elif get_origin(wanted) in (Union, UnionType):
        for one in get_args(wanted):
            yield from _structs(one)
    elif isinstance(wanted, type) and issubclass(wanted, msgspec.Struct):
        yield wanted


def _fields(structs: list[Any]) -> list[str]:
    return list(dict.fromkeys(name for struct in structs for name in struct.__struct_encode_fields__))


def _kinds(structs: list[Any]) -> list[str]:
    return list(dict.fromkeys(struct.__struct_config__.tag for struct in structs if struct.__struct_config__.tag))


def _hint(found: str, names: list[str], short: Mapping[str, str] | None = None) -> str:
    """Return the nearest name, of the names themselves or of their aliases, and all names."""
    short = short or {}
    choices = f"choose from {', '.join(names)}" if names else "nothing can be set here"
    near = get_close_matches(found, [*names, *short], 1)
    if not near:
        return choices
    nearest = f"{short[near[0]]} ({near[0]})" if near[0] in short else near[0]
    return f"did you mean {nearest}? ({choices})"
