"""The privacy side of the page: among how many an update was hidden, what all rounds gave away, what was recovered."""

from collections.abc import Sequence
from typing import Any

from f2ed.records.intake import RecordedRun
from f2ed.records.text import percent, schedule
from f2ed.report.arms import Arm
from f2ed.report.labels import flat

__all__ = ["audits", "dealt", "pictures", "privacy"]

_SECRECY = {
    "none": "none: no shards, every update is seen",
    "clear": "none: added in the clear",
    "unknown": "the records do not say",
}
_UNKNOWN = "—"
_SCHEDULES = {
    "": "once",
    "fixed": "once",
    "every-round": "anew in every round",
    "every-k-rounds": "anew every {k} rounds",
    "batches": "whole batches of {size}, anew every {k} rounds",
}


def privacy(every: Sequence[Arm]) -> list[dict[str, Any]]:
    """Return a row for each setting and kind of secrecy."""
    grouped: dict[tuple[str, ...], int] = {}
    for arm in every:
        for run in arm.runs:
            row = (arm.setting, *_row(run))
            grouped[row] = grouped.get(row, 0) + 1
    names = (
        "setting",
        "secrecy",
        "crowd",
        "helped",
        "surrounded",
        "schedule",
        "determined",
        "forecast",
        "epsilon",
    )
    return [dict(zip(names, row, strict=True)) | {"runs": count} for row, count in grouped.items()]


def audits(runs: Sequence[RecordedRun]) -> dict[str, Any] | None:
    """Return what audits found as one table; None if there was none."""
    found = [{"file": run.file} | flat(_known(audit)) for run in runs for audit in run.audits]
    columns = [name for name in dict.fromkeys(name for row in found for name in row) if name != "record"]
    return {"columns": columns, "rows": [[row.get(name, "") for name in columns] for row in found]} if found else None


def pictures(runs: Sequence[RecordedRun]) -> list[dict[str, str]]:
    """Return the pictures of audits, with the run's file where several have some."""
    several = sum(bool(run.pictures) for run in runs) > 1
    return [
        {"caption": f"{run.file}: {each.caption}" if several else each.caption, "png": each.png}
        for run in runs
        for each in run.pictures
    ]


def _known(audit: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in audit.items() if value is not None}


def dealt(settings: dict[str, Any]) -> str:
    """Say when the shards were dealt."""
    kind, table = schedule(settings), settings.get("schedule")
    numbers = {"k": "?", "size": "?"} | (table if isinstance(table, dict) else {})
    return _SCHEDULES.get(kind, kind).format(**numbers).replace("every 1 rounds", "every round")


def _row(run: RecordedRun) -> tuple[str, ...]:
    header = run.header
    masked = header.mode not in _SECRECY
    promise = header.guarantee if masked else {}
    surrounded = promise.get("chance_surrounded")
    return (
        _SECRECY.get(header.mode, f"masked, {header.mode}"),
        str(run.crowd or _UNKNOWN),
        str(promise.get("honest_crowd", _UNKNOWN)),
        _UNKNOWN if surrounded is None else _chance(surrounded),
        _UNKNOWN if header.mode == "none" else dealt(header.settings),
        _determined(run),
        _UNKNOWN if header.forecast is None else f"cosine {header.forecast.cosine:.2f}",
        _epsilon(run),
    )


def _determined(run: RecordedRun) -> str:
    """Say what the sums of all rounds together determine, as the leak meter read it last."""
    last = run.rounds[-1].leak if run.rounds else None
    if last is None:
        return _UNKNOWN
    if not last.exposed:
        return f"no client, no group below {last.crowd}"
    return f"{last.exposed} of {run.header.clients}, first after {last.first} rounds"


def _epsilon(run: RecordedRun) -> str:
    """Say what differential privacy the client that has lost most is left with; infinite without noise."""
    told = run.rounds[-1].max_dp_epsilon if run.rounds else None
    return "∞: no noise" if told is None else f"{told:.3g}"


def _chance(found: float) -> str:
    return percent(found) if found == 0 or found >= 1e-3 else "below 0.1%"
