"""Read records of format 1: the names of settings, kinds and fields as they were, and as they are now.

Format 1 has no `format` in its header. It named things otherwise and stored sentences, which format 2 derives from
numbers. Settings are renamed so that their digest is that of the same experiment today.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any

from f2ed.records.digest import REMOVED, settings_digest
from f2ed.records.plugin import title_of
from f2ed.records.schema import FORMAT

__all__ = ["Describe", "as_plugin", "is_older", "migrate_header", "migrate_round", "migrate_settings"]

Describe = Callable[[str, str], Mapping[str, str]]
"""From "estimator" or "attack" and a kind to a title, a family and a paper."""

_KEYS: dict[str, dict[str, str]] = {
    "": {"clip": "clip_value", "l2": "clip_norm", "dropout": "client_dropout", "privacy": "dp"},
    "data": {"normalise": "normalize"},
    "partition": {"labels": "classes_per_client", "least": "min_samples"},
    "training": {"batch": "batch_size", "optimiser": "optimizer"},
    "attack": {"optimiser": "optimizer"},
    "estimator": {"epsilon": "contamination"},
    "dp": {"multiplier": "noise_multiplier"},
    "protocol": {"survivors": "min_crowd"},
    "guarantee": {"hidden_among": "crowd", "hidden_among_honest": "honest_crowd"},
}
_KINDS: dict[str, dict[str, str]] = {
    "attack": {
        "ka": "krum-attack",
        "tma": "trimmed-mean-attack",
        "mpa": "model-poisoning",
        "mra": "model-replacement",
    },
    "partition": {"labels-per-client": "pathological", "neighbouring-labels": "neighboring-classes"},
}
_VARIANTS = {"inventors": "original", "authors": "released"}
_DEFAULTS: dict[str, Any] = {"attack_from": 0, "dp": None}
"""Settings that the first records did not have yet."""
_LABELS = {
    "(authors)": "(released)",
    "labels-per-client": "pathological",
    "neighbouring-labels": "neighboring-classes",
    "normalised": "normalized",
    "epsilon": "contamination",
    "privacy": "dp",
}
_NOISE = re.compile(r"noise of (\S+) in each coordinate, (\S+) in all where an update has at most (\S+);")
_NO_STEP = "no step: "
_STOPPED = {
    "twice the feared mass is gone": "a weight of 2f is removed",
    "2 floor(epsilon n) rows are removed": "2f rows are removed",
    "the rows left agree": "the remaining rows agree",
    "the rows left stick out alike": "the remaining rows deviate equally",
    "all rounds are played": "all 2f steps are done",
    "no other set can be narrower": "no other set has a smaller eigenvalue",
}


def is_older(header: Mapping[str, Any]) -> bool:
    """Return whether a header, and the rounds after it, are of an older format."""
    return bool(header.get("format", 1) == 1)


def migrate_header(found: Mapping[str, Any], describe: Describe | None = None) -> dict[str, Any]:
    """Return a header of format 1 or 2 as one of format 2 by today's names.

    `describe` supplies what format 1 does not know of a plug-in; without it the title is made from the kind.
    """
    header = dict(found)
    if isinstance(header.get("settings"), Mapping):
        header["settings"] = migrate_settings(header["settings"])
    if isinstance(header.get("guarantee"), Mapping):
        header["guarantee"] = _renamed(header["guarantee"], "guarantee")
    settings = header.get("settings") or {}
    if is_older(header):
        header = _to_format_2(header, settings)
    for setting in ("estimator", "attack"):
        if describe is not None and isinstance(settings.get(setting), Mapping):
            header[setting] = as_plugin(setting, settings[setting], describe)
    if "data" in settings:
        header["digest"] = settings_digest(settings)
    return header


def migrate_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a simulation by today's names."""
    renamed = _renamed(settings, "")
    for name, value in renamed.items():
        if isinstance(value, Mapping):
            renamed[name] = _table(value, name)
    return renamed if "data" not in renamed else _DEFAULTS | renamed


def migrate_round(found: Mapping[str, Any], crowd: int) -> dict[str, Any]:
    """Return a round of format 1 as one of format 2; `crowd` is the header's, which the first records state alone."""
    record = dict(found)
    record["crowd"] = record.pop("hidden_among", record.get("crowd", crowd))
    if "meter" in record:
        record["leak"] = record.pop("meter")
    spent = record.pop("epsilon", None)
    record["dp_epsilon"] = dict(enumerate(spent)) if isinstance(spent, list) else spent
    stopped = record.get("stopped")
    if isinstance(stopped, str):
        record["stopped"] = _STOPPED.get(stopped, stopped)
        if stopped.startswith(_NO_STEP):
            record |= {"skipped": stopped.removeprefix(_NO_STEP), "stopped": ""}
    return record


def as_plugin(setting: str, table: Mapping[str, Any], describe: Describe | None = None) -> dict[str, Any]:
    """Describe the plug-in that a table of settings names, with the rule inside it."""
    kind = str(table.get("kind") or "unknown")
    inner = table.get("inner")
    description = {"title": title_of(kind)} if describe is None else dict(describe(setting, kind))
    return {
        "kind": kind,
        **description,
        "inner": as_plugin(setting, inner, describe) if isinstance(inner, Mapping) else None,
    }


def _to_format_2(header: dict[str, Any], settings: Mapping[str, Any]) -> dict[str, Any]:
    notes = " ".join(header.pop("notes", None) or ())
    header.pop("verdict", None)
    header |= {"format": FORMAT, "source": "simulation"}
    if "hidden_among" in header:
        header["crowd"] = header.pop("hidden_among")
    if isinstance(header.get("forecast"), Mapping):
        header["forecast"] = {key: value for key, value in header["forecast"].items() if key != "text"}
    attacked = header.pop("attacked", None)
    header["estimator"] = _plugin(settings, "estimator") or {"kind": "unknown", "title": "Unknown estimator"}
    header["attack"] = _plugin(settings, "attack")
    if attacked and header["attack"] is None:
        header["attack"] = {"kind": "unknown", "title": "Unknown attack"}
    header |= {"tolerated": _tolerated(header, settings), "noise": _noise(settings, notes)}
    if isinstance(header.get("arm"), Mapping):
        header["arm"] = {
            _KEYS[""].get(key, key): _label(value) for key, value in header["arm"].items() if isinstance(value, str)
        }
    if isinstance(header.get("name"), str):
        header["name"] = _label(header["name"])
    return header


def _renamed(table: Mapping[str, Any], setting: str) -> dict[str, Any]:
    names = _KEYS.get(setting, {})
    removed = REMOVED.get(setting, {})
    return {names.get(key, key): value for key, value in table.items() if (key, value) not in removed.items()}


def _table(table: Mapping[str, Any], setting: str) -> dict[str, Any]:
    renamed = _renamed(table, setting)
    if "kind" in renamed:
        renamed["kind"] = _KINDS.get(setting, {}).get(renamed["kind"], renamed["kind"])
    if "variant" in renamed:
        renamed["variant"] = _VARIANTS.get(renamed["variant"], renamed["variant"])
    if isinstance(renamed.get("inner"), Mapping):
        renamed["inner"] = _table(renamed["inner"], setting)
    return renamed


def _label(text: str) -> str:
    for old, new in _LABELS.items():
        text = text.replace(old, new)
    return text


def _plugin(settings: Mapping[str, Any], setting: str) -> dict[str, Any] | None:
    table = settings.get(setting)
    if isinstance(table, str) and table != "none":
        table = {"kind": table}
    return as_plugin(setting, table) if isinstance(table, Mapping) else None


def _tolerated(header: Mapping[str, Any], settings: Mapping[str, Any]) -> int | None:
    estimator, rows = settings.get("estimator"), len(header.get("shards") or ()) or header.get("clients", 0)
    share = estimator.get("contamination") if isinstance(estimator, Mapping) else None
    return int(share * rows + 1e-9) if isinstance(share, int | float) else None


def _noise(settings: Mapping[str, Any], notes: str) -> dict[str, Any] | None:
    noise, found = settings.get("dp"), _NOISE.search(notes)
    if not isinstance(noise, Mapping) or found is None:
        return None
    shard, shard_norm, clip_norm = map(float, found.groups())
    protocol = settings.get("protocol") or {}
    return {
        "noise_multiplier": noise.get("noise_multiplier", 0.0),
        "delta": noise.get("delta", 1e-5),
        "clip_norm": clip_norm,
        "shard": shard,
        "shard_norm": shard_norm,
        "colluders": protocol.get("colluders", 0),
    }
