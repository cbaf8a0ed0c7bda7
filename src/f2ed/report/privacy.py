"""The privacy tables of the page: the crowd of each update, what all rounds together reveal, what audits recovered."""

from collections.abc import Sequence
from typing import Any

from f2ed.records.intake import RecordedRun
from f2ed.records.text import guard, percent, schedule
from f2ed.report.arms import Arm, flat

__all__ = ["audits", "pictures", "privacy"]

_SECRECY = {
    "none": "none: no shards, every update is seen",
    "clear": "none: summed without masks",
    "helpers": "helpers: no two of server, mixer and judge may collude",
    "unknown": "not recorded",
}
_UNKNOWN = "—"
_COLUMNS = (
    "setting",
    "secrecy",
    "crowd",
    "honest_crowd",
    "surrounded",
    "schedule",
    "determined",
    "forecast",
    "dp_epsilon",
)


def privacy(every: Sequence[Arm]) -> list[dict[str, Any]]:
    """Return a row for each setting and kind of secrecy."""
    grouped: dict[tuple[str, ...], int] = {}
    for arm in every:
        for run in arm.runs:
            row = (arm.setting, *_row(run))
            grouped[row] = grouped.get(row, 0) + 1
    return [dict(zip(_COLUMNS, row, strict=True)) | {"runs": count} for row, count in grouped.items()]


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


def _row(run: RecordedRun) -> tuple[str, ...]:
    header = run.header
    stated = {} if header.mode in _SECRECY else header.guarantee
    surrounded = stated.get("chance_surrounded")
    return (
        _SECRECY.get(header.mode, f"masked, {header.mode}"),
        str(run.crowd or _UNKNOWN),
        str(stated.get("honest_crowd", _UNKNOWN)),
        _UNKNOWN if surrounded is None else _chance(surrounded),
        _over_rounds(run),
        _determined(run),
        _UNKNOWN if header.forecast is None else f"cosine {header.forecast.cosine:.2f}",
        _dp_epsilon(run),
    )


def _over_rounds(run: RecordedRun) -> str:
    """Return which sums are opened over the rounds."""
    helpers = run.header.settings.get("helpers")
    if helpers:
        return guard(helpers)
    return _UNKNOWN if run.header.mode == "none" else schedule(run.header.settings)


def _determined(run: RecordedRun) -> str:
    """Return what the sums of all rounds together determine, by the last reading of the leak meter."""
    last = run.rounds[-1].leak if run.rounds else None
    if last is None:
        return _UNKNOWN
    if not last.exposed:
        return f"no client, no group below {last.crowd}"
    return f"{last.exposed} of {run.header.clients}, first after {last.first} rounds"


def _dp_epsilon(run: RecordedRun) -> str:
    """Return the epsilon of the client that has spent most; infinite without noise."""
    spent = run.rounds[-1].max_dp_epsilon if run.rounds else None
    return "∞: no noise" if spent is None else f"{spent:.3g}"


def _chance(found: float) -> str:
    return percent(found) if found == 0 or found >= 1e-3 else "below 0.1%"
