"""The privacy side of the page: among how many clients an update was hidden, and what an audit recovered."""

from collections.abc import Sequence
from typing import Any

from f2ed.remarks import percent, schedule
from f2ed.report.arms import Arm
from f2ed.report.reading import Run
from f2ed.report.words import flat

__all__ = ["audits", "privacy"]

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
}


def privacy(every: Sequence[Arm]) -> list[dict[str, Any]]:
    """Return a row for each setting and kind of secrecy."""
    grouped: dict[tuple[str, ...], int] = {}
    for arm in every:
        for run in arm.runs:
            row = (arm.setting, *_row(run))
            grouped[row] = grouped.get(row, 0) + 1
    names = ("setting", "secrecy", "hidden_among", "helped", "surrounded", "schedule")
    return [dict(zip(names, row, strict=True)) | {"runs": count} for row, count in grouped.items()]


def audits(runs: Sequence[Run]) -> dict[str, Any] | None:
    """Return what audits found as one table; None if there was none."""
    found = [{"file": run.file} | flat(_known(audit)) for run in runs for audit in run.audits]
    columns = [name for name in dict.fromkeys(name for row in found for name in row) if name != "record"]
    return {"columns": columns, "rows": [[row.get(name, "") for name in columns] for row in found]} if found else None


def _known(audit: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in audit.items() if value is not None}


def _row(run: Run) -> tuple[str, ...]:
    header = run.header
    masked = header.mode not in _SECRECY
    promise = header.guarantee if masked else {}
    surrounded = promise.get("chance_surrounded")
    kind = schedule(header.settings)
    table = header.settings.get("schedule")
    dealt = _SCHEDULES.get(kind, kind).format(k=table.get("k", "?") if isinstance(table, dict) else "?")
    return (
        _SECRECY.get(header.mode, f"masked, {header.mode}"),
        str(run.hidden_among or _UNKNOWN),
        str(promise.get("hidden_among_honest", _UNKNOWN)),
        _UNKNOWN if surrounded is None else _chance(surrounded),
        _UNKNOWN if header.mode == "none" else dealt,
    )


def _chance(found: float) -> str:
    return percent(found) if found == 0 or found >= 1e-3 else "below 0.1%"
