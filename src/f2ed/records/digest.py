"""The digest of settings, by which an experiment finds its records."""

import hashlib
from collections.abc import Mapping
from typing import Any

import msgspec

__all__ = ["settings_digest"]


def settings_digest(settings: Mapping[str, Any]) -> str:
    """Return SHA-256 of settings in plain values, whatever the order of their keys.

    A setting that is None counts as absent, so that an optional setting can be added without renaming old runs.
    """
    return hashlib.sha256(msgspec.json.encode(_stated(settings), order="sorted")).hexdigest()


def _stated(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _stated(inner) for key, inner in value.items() if inner is not None}
    return [_stated(inner) for inner in value] if isinstance(value, list | tuple) else value
