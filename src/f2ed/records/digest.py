"""The digest of settings, by which an experiment finds its records."""

import hashlib
from collections.abc import Mapping
from typing import Any

import msgspec

__all__ = ["ADDED", "REMOVED", "settings_digest"]

REMOVED: dict[str, dict[str, Any]] = {"protocol": {"consistent": True}}
"""Settings that exist no more, by table, with the one value that is left."""

ADDED: dict[str, dict[str, Any]] = {"protocol": {"agreement": "x25519+mlkem768"}}
"""Settings that came later and change no result, by table, with the default that counts as absent."""


def settings_digest(settings: Mapping[str, Any]) -> str:
    """Return SHA-256 of settings in plain values, whatever the order of their keys.

    A setting that is None counts as absent, so that an optional setting can be added without renaming old runs. One
    that was removed counts as the only value that is left, and the default of one that was added as absent.
    """
    stated = _stated(settings)
    for table, removed in REMOVED.items():
        if isinstance(stated.get(table), Mapping):
            stated[table] = removed | stated[table]
    for table, added in ADDED.items():
        if isinstance(inside := stated.get(table), Mapping):
            stated[table] = {key: value for key, value in inside.items() if added.get(key) != value}
    return hashlib.sha256(msgspec.json.encode(stated, order="sorted")).hexdigest()


def _stated(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _stated(inner) for key, inner in value.items() if inner is not None}
    return [_stated(inner) for inner in value] if isinstance(value, list | tuple) else value
