"""What is wrong with settings, said so that a person can put it right: where, what was found, what would do."""

import re
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

import msgspec

__all__ = ["complaint"]

_PATH = re.compile(r"^(?P<what>.*?)(?: - at `(?P<path>\$.*)`)?$", re.DOTALL)
_STEP = re.compile(r"\.?([\w-]+|\[\d*\.*\])")


def complaint(message: str, given: Mapping[str, Any], wanted: type) -> str:
    """Rewrite msgspec's message for settings of a type: the path as in the file, and what would be right."""
    found = _PATH.match(message)
    what, path = (found["what"], found["path"] or "$") if found else (message, "$")
    steps = _STEP.findall(path[1:])
    here, value = list(_types(wanted, steps, given)), _value(given, steps)
    place = ".".join(steps).replace(".[", "[")
    if unknown := re.search(r"unknown field `(.+)`", what):
        place = f"{place}.{unknown[1]}" if place else unknown[1]
        return f"{place}: there is no such setting; {_instead(unknown[1], _fields(here))}"
    if steps and steps[-1] in {"kind", "type"} and "Invalid value" in what:
        return f"{place}: there is no {value!r}; {_instead(str(value), _tags(_types(wanted, steps[:-1], {})))}"
    if missing := re.search(r"missing required field `(.+)`", what):
        place = f"{place}.{missing[1]}" if place else missing[1]
        return f"{place} is missing; state it"
    shown = "" if value is _ABSENT or isinstance(value, Mapping) else f" (found {value!r})"
    return f"{place}: {what[:1].lower()}{what[1:]}{shown}" if place else f"{what}{shown}"


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


def _tags(structs: Iterator[Any]) -> list[str]:
    return [struct.__struct_config__.tag for struct in structs if struct.__struct_config__.tag]


def _instead(found: str, right: list[str]) -> str:
    near = get_close_matches(found, right, 1)
    choices = ", ".join(right) or "none"
    return f"did you mean {near[0]}? (there are: {choices})" if near else f"there are: {choices}"
