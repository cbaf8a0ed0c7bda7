"""One line of a file of records, decoded so that little is lost: non-finite numbers, missing and unreadable fields."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal, TypeVar

import msgspec

from f2ed.records.schema import RoundRecord, RunHeader

__all__ = ["Complain", "as_record", "header_defaults", "parsed"]

Kind = TypeVar("Kind", RunHeader, RoundRecord)
Complain = Callable[[str, Literal["broken", "note", "once"]], None]
"""Receives what is wrong with a line; "once" is a note that is likely to be the same for every line."""


def parsed(text: bytes) -> dict[str, Any]:
    """Decode a line; NaN and Infinity, which JSON does not have but some writers write, are accepted."""
    try:
        found = msgspec.json.decode(text)
    except msgspec.DecodeError as wrong:
        try:
            found = json.loads(text)
        except (ValueError, RecursionError):
            raise ValueError(wrong) from None
    if not isinstance(found, dict):
        raise ValueError(f"found {type(found).__name__}, wanted an object")  # noqa: TRY004  the caller's one kind
    return found


def header_defaults(found: Mapping[str, Any], file: str) -> dict[str, Any]:
    """Return what stands for required fields that a header lacks: nothing is claimed that is not known."""
    settings = found.get("settings")
    settings = settings if isinstance(settings, dict) else {}
    return {
        "name": Path(file).stem,
        "digest": file,
        "settings": settings,
        "rounds": settings.get("rounds", 0),
        "versions": {},
        "estimator": {"kind": "unknown", "title": "Unknown estimator"},
        "clients": settings.get("clients", 0),
        "shards": (),
        "mode": "unknown",
        "crowd": 0,
        "guarantee": {},
    }


def as_record(
    found: Mapping[str, Any], kind: type[Kind], missing: Mapping[str, Any], complain: Complain
) -> Kind | None:
    """Convert a decoded line, field by field where it has to be; None if a field is lost that nothing can stand for."""
    fields = {field.name: field for field in msgspec.structs.fields(kind)}
    for key in sorted(set(found) - set(fields) - {"record"}):
        complain(f"has a field that this version does not know: {key}; it is ignored", "once")
    try:
        return msgspec.convert(found, kind, str_keys=True)
    except msgspec.ValidationError:
        values = {
            name: value
            for name, field in fields.items()
            if (value := _value(found, field, missing, complain)) is not msgspec.UNSET
        }
    lost = [name for name, field in fields.items() if field.required and name not in values]
    return None if lost else msgspec.convert(values, kind, str_keys=True)


def _value(
    found: Mapping[str, Any], field: msgspec.structs.FieldInfo, missing: Mapping[str, Any], complain: Complain
) -> Any:
    """Return a field's value, or what stands for it; UNSET if there is neither."""
    name, spare = field.name, missing.get(field.name, msgspec.UNSET)
    needed = field.required and spare is msgspec.UNSET
    if name not in found:
        if needed:
            complain(f"has no {name}; the line is not used", "broken")
        elif field.required:
            complain(f"has no {name}, as if written by another version of f2ed; shown without it", "once")
        return spare
    try:
        return msgspec.convert(found[name], field.type, str_keys=True)
    except msgspec.ValidationError as wrong:
        end = "the line is not used" if needed else "shown without it"
        complain(f"has a {name} that cannot be read ({wrong}); {end}", "broken" if needed else "note")
        return spare
