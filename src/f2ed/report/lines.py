"""One line of a file of records, decoded so that little is lost: numbers that are none, headers of older versions."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

__all__ = ["older_header", "parsed"]


def parsed(text: bytes) -> dict[str, Any]:
    """Decode a line; NaN and Infinity, which JSON does not have but some writers write, are let through."""
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


def older_header(found: Mapping[str, Any], file: str) -> dict[str, Any]:
    """Return what stands for fields that a header does not have: nothing is claimed that is not known."""
    settings = found.get("settings")
    settings = settings if isinstance(settings, dict) else {}
    return {
        "name": Path(file).stem,
        "digest": file,
        "settings": settings,
        "seed": settings.get("seed", 0),
        "rounds": settings.get("rounds", 0),
        "versions": {},
        "device": "",
        "dimension": 0,
        "clients": settings.get("clients", 0),
        "malicious": (),
        "shards": (),
        "mode": "unknown",
        "crowd": 0,
        "guarantee": {},
    }
