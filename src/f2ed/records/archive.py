"""An archive holds the runs of one experiment in a single compressed file, in the same lines as one file per run."""

import csv
import io
import lzma
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from f2ed.records.grading import late_contaminated_weight
from f2ed.records.schema import RunLog, lines

__all__ = ["COLUMNS", "distinct", "packed", "summary_table"]

COLUMNS = (
    "experiment",
    "run",
    "digest",
    "data",
    "partition",
    "model",
    "attack",
    "estimator",
    "shards",
    "schedule",
    "clients",
    "malicious",
    "seed",
    "rounds",
    "accuracy",
    "success",
    "contaminated_weight",
    "guarantee",
    "mode",
    "crowd",
    "exposed",
    "dp_epsilon",
    "seconds_per_round",
    "device",
)


def distinct(logs: Iterable[RunLog]) -> list[RunLog]:
    """Return every run once, in the order of their names: of several with the same settings the one with most rounds.

    Of equally many the last one counts. Simulations with other source code of their own, and deployments that started
    at different times, are different runs.
    """
    found: dict[tuple[str, str], RunLog] = {}
    for log in logs:
        header = log.header
        run = header.digest, header.started if header.source == "deployment" else str(header.sources)
        if run not in found or len(log.rounds) >= len(found[run].rounds):
            found[run] = log
    return sorted(found.values(), key=_order)


def packed(logs: Iterable[RunLog]) -> bytes:
    """Return the runs as a compressed archive, in the order of their names; the same runs give the same bytes."""
    ordered = sorted(logs, key=_order)
    return lzma.compress(b"".join(map(lines, ordered)), check=lzma.CHECK_CRC32, preset=9 | lzma.PRESET_EXTREME)


def summary_table(experiments: Mapping[str, Sequence[RunLog]]) -> str:
    """Return CSV with one row per run: its settings, and the numbers after its last round.

    Rows are in the order of experiments and names, whatever the order of the files.
    """
    out = io.StringIO()
    writer = csv.DictWriter(out, COLUMNS, lineterminator="\n")
    writer.writeheader()
    for experiment in sorted(experiments):
        writer.writerows(_row(experiment, log) for log in distinct(experiments[experiment]))
    return out.getvalue()


def _order(log: RunLog) -> tuple[str, ...]:
    return log.header.name, log.header.digest, log.header.started


def _row(experiment: str, log: RunLog) -> dict[str, Any]:
    header, settings = log.header, log.header.settings
    last = log.rounds[-1] if log.rounds else None
    leak = None if last is None else last.leak
    found = {
        "experiment": experiment,
        "run": header.name,
        "digest": header.digest[:8],
        "data": _kind(settings.get("data")),
        "partition": _kind(settings.get("partition")),
        "model": _kind(settings.get("model")),
        "attack": "none" if header.attack is None else header.attack.kind,
        "estimator": header.estimator.full_kind,
        "shards": settings.get("shards", len(header.shards)),
        "schedule": _kind(settings.get("schedule")),
        "clients": header.clients,
        "malicious": header.guarantee.get("malicious"),
        "seed": header.seed,
        "rounds": len(log.rounds),
        "accuracy": _short(None if last is None else last.accuracy),
        "success": _short(None if last is None else last.success),
        "contaminated_weight": _short(late_contaminated_weight(log.rounds) if header.attacked else None),
        "guarantee": "" if last is None else last.guarantee,
        "mode": header.mode,
        "crowd": header.crowd if last is None else last.crowd,
        "exposed": None if leak is None else leak.exposed,
        "dp_epsilon": _short(None if last is None else last.max_dp_epsilon),
        "seconds_per_round": _short(sum(each.seconds.total for each in log.rounds) / max(1, len(log.rounds)), 3),
        "device": header.device,
    }
    return {name: "" if value is None else value for name, value in found.items()}


def _kind(table: object) -> str:
    return str(table.get("kind") or table.get("type") or "") if isinstance(table, Mapping) else str(table or "")


def _short(value: float | None, digits: int = 5) -> str:
    return "" if value is None else f"{value:.{digits}g}"
