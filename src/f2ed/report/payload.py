"""The data of the page: one value that becomes JSON, with numbers rounded to what can be seen."""

from collections.abc import Iterable, Mapping, Sequence
from math import isfinite
from typing import Any

import msgspec

from f2ed.records import RoundRecord, text
from f2ed.records.intake import Problem, RecordedRun
from f2ed.report.arms import Arm, arms, flat
from f2ed.report.curves import Curve, accuracy, curve, loss, success
from f2ed.report.privacy import audits, pictures, privacy
from f2ed.report.verdict import grade_arm, page_verdict

__all__ = ["SHOWN_ROUNDS", "STAGES", "payload"]

STAGES = {
    "train": "training",
    "attack": "attack",
    "protect": "masking",
    "exchange": "clients and network",
    "sum": "secure sum",
    "estimate": "robust mean",
    "evaluate": "evaluation",
}

SHOWN_ROUNDS = 500
"""A page shows at most about this many rounds of a run; of longer runs every second, fourth, … one."""


def payload(runs: Sequence[RecordedRun], problems: Sequence[Problem]) -> dict[str, Any]:
    """Return everything that the page shows; the page itself computes nothing but sums of what it draws."""
    every = arms(runs)
    return {
        "verdict": msgspec.to_builtins(page_verdict(every)),
        "problems": msgspec.to_builtins(list(problems)),
        "stages": STAGES,
        "arms": {arm.key: {"order": order} | _arm(arm, every) for order, arm in enumerate(every)},
        "runs": {run.file: _run(run, arm) for arm in every for run in arm.runs},
        "privacy": privacy(every),
        "audits": audits(runs),
        "pictures": pictures(runs),
    }


def _arm(arm: Arm, every: Sequence[Arm]) -> dict[str, Any]:
    reached, wanted, minimized = (curve(arm.runs, read) for read in (accuracy, success, loss))
    return {
        "setting": arm.setting,
        "attack": arm.attack,
        "attacked": arm.attacked,
        "estimator": arm.estimator,
        "color": arm.look.color,
        "dash": arm.look.dash,
        "runs": [run.file for run in arm.runs],
        "seeds": [run.header.seed for run in arm.runs],
        "unfinished": sum(not run.finished for run in arm.runs),
        "accuracy": _curve(reached),
        "success": _curve(wanted),
        "loss": _curve(minimized),
        "end": {"accuracy": _end(reached), "success": _end(wanted), "loss": _end(minimized)},
        "grade": msgspec.to_builtins(grade_arm(arm, every)),
        "seconds": {stage: _short(_mean(getattr(r.seconds, stage) for r in _records(arm))) for stage in STAGES},
        "bytes_up": round(_mean(record.bytes_up for record in _records(arm))),
        "bytes_down": round(_mean(record.bytes_down for record in _records(arm))),
    }


def _records(arm: Arm) -> list[RoundRecord]:
    return [record for run in arm.runs for record in run.rounds]


def _mean(values: Iterable[float]) -> float:
    found = list(values)
    return sum(found) / len(found) if found else 0.0


def _curve(found: Curve | None) -> dict[str, Any] | None:
    if found is None:
        return None
    return {
        "rounds": found.rounds,
        "mean": _shorts(found.mean),
        "low": _shorts(found.low),
        "high": _shorts(found.high),
    }


def _end(found: Curve | None) -> float | None:
    return None if found is None else _short(found.at(found.last))


def _run(run: RecordedRun, arm: Arm) -> dict[str, Any]:
    header, rounds = run.header, run.rounds
    return {
        "arm": arm.key,
        "title": " · ".join(filter(None, (arm.setting, arm.attack, arm.estimator, f"seed {header.seed}"))),
        "name": header.name,
        "seed": header.seed,
        "wanted": header.rounds,
        "seen": run.seen,
        "every": run.every,
        "finished": run.finished,
        "device": header.device,
        "started": header.started,
        "versions": header.versions,
        "settings": flat(header.settings),
        "notes": text.notes(header),
        "guarantee_text": text.summary(header),
        "forecast": text.forecast(header),
        "dimension": header.dimension,
        "clients": header.clients,
        "malicious": header.malicious or (),
        "rows": len(header.shards) or max((len(record.weights or ()) for record in rounds), default=0),
        "members": [len(shard) for shard in header.shards],
        "mode": header.mode,
        "schedule": text.schedule(header.settings),
        "source": header.source,
        "crowd": run.crowd,
        "guarantee": _plain(header.guarantee),
        "audits": [_plain(audit) for audit in run.audits],
        "columns": _columns(rounds),
        "weights": [None if record.weights is None else _shorts(record.weights, 3) for record in rounds],
        "contaminated": [record.contaminated or () for record in rounds],
        "knows_attackers": any(record.contaminated is not None for record in rounds),
        "skipped": [record.skipped for record in rounds],
        "dropped": [len(record.dropped) for record in rounds],
        "excluded": [{str(shard): why for shard, why in record.excluded.items()} for record in rounds],
        "seconds": {stage: [_short(getattr(record.seconds, stage), 3) for record in rounds] for stage in STAGES},
    }


def _columns(rounds: Sequence[RoundRecord]) -> dict[str, list[Any]]:
    numbers = ("accuracy", "loss", "success", "success_every", "eigenvalue", "step")
    counts = (
        "round",
        "iterations",
        "stopped",
        "clipped",
        "clipped_honest",
        "shortened",
        "bytes_up",
        "bytes_down",
        "guarantee",
        "crowd",
    )
    found: dict[str, list[Any]] = {name: [getattr(record, name) for record in rounds] for name in counts}
    found |= {name: _shorts([getattr(record, name) for record in rounds], 5) for name in numbers}
    for name in ("rank", "exposed"):
        found[name] = [None if record.leak is None else getattr(record.leak, name) for record in rounds]
    found["contaminated_weight"] = _shorts([record.contaminated_weight for record in rounds])
    return found


def _plain(table: Mapping[str, Any]) -> dict[str, Any]:
    return {key: _short(value) if isinstance(value, float) else value for key, value in table.items()}


def _shorts(values: Iterable[float | None], digits: int = 4) -> list[float | None]:
    return [_short(value, digits) for value in values]


def _short(value: float | None, digits: int = 4) -> float | None:
    """Round to this many digits, whole numbers to integers; what is not finite is None, as JSON cannot express it."""
    if value is None or not isfinite(value):
        return None
    short = float(f"{value:.{digits}g}")
    return int(short) if short.is_integer() else short
