"""Records for other tools: one row per round as CSV or Parquet, or the event files that TensorBoard reads."""

import csv
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from f2ed.core.errors import ConfigError, MissingExtra
from f2ed.records import RoundRecord
from f2ed.records.columns import COUNTS, NUMBERS, numbers
from f2ed.records.intake import RecordedRun
from f2ed.report.arms import arms, flat
from f2ed.report.sinks import EventFile

__all__ = ["rows", "write_csv", "write_parquet", "write_tensorboard"]


def rows(runs: Sequence[RecordedRun]) -> Iterator[dict[str, Any]]:
    """Yield a flat row for each round of each run; rounds count from 0, as in the records."""
    for arm in arms(runs):
        for run in arm.runs:
            head = {
                "file": run.file,
                "name": run.header.name,
                "setting": arm.setting,
                "attack": arm.attack,
                "estimator": arm.estimator,
                "seed": run.header.seed,
                "mode": run.header.mode,
                "settings": "; ".join(f"{path}={value}" for path, value in flat(run.header.settings).items()),
            }
            for record in run.rounds:
                yield head | {"round": record.round} | numbers(record) | _texts(record)


def write_csv(runs: Sequence[RecordedRun], path: Path) -> int:
    """Write CSV; return how many rows there are. What is not known is an empty cell."""
    every = _some(runs)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(every[0]))
        writer.writeheader()
        writer.writerows(every)
    return len(every)


def write_parquet(runs: Sequence[RecordedRun], path: Path) -> int:
    """Write Parquet; return how many rows there are."""
    try:
        import pyarrow as pa  # noqa: PLC0415  an optional dependency
        from pyarrow import parquet  # noqa: PLC0415  an optional dependency
    except ModuleNotFoundError:
        raise MissingExtra("Parquet", "parquet") from None
    every = _some(runs)
    path.parent.mkdir(parents=True, exist_ok=True)
    # A column without a single value still has a type: what other runs of the same kind would hold.
    types = {name: pa.int64() if name in COUNTS else pa.float64() for name in NUMBERS}
    types |= {"seed": pa.int64(), "round": pa.int64()}
    schema = pa.schema([(name, types.get(name, pa.string())) for name in every[0]])
    parquet.write_table(pa.Table.from_pylist(every, schema), path)
    return len(every)


def write_tensorboard(runs: Sequence[RecordedRun], folder: Path) -> int:
    """Write an event file for each run, in a folder of its name; return how many numbers were written.

    A run's second export replaces the first.
    """
    _some(runs)
    count = 0
    for run in runs:
        events = EventFile(folder / Path(run.file).with_suffix(""), run.header)
        for record in run.rounds:
            events.send(record)
        events.close(finished=True)
        count += events.count
    return count


def _some(runs: Sequence[RecordedRun]) -> list[dict[str, Any]]:
    every = list(rows(runs))
    if not every:
        raise ConfigError("no run has a round to export yet; wait for the first, or name other records")
    return every


def _texts(record: RoundRecord) -> dict[str, str]:
    return {
        "guarantee": record.guarantee,
        "stopped": record.stopped,
        "contaminated": " ".join(map(str, record.contaminated or ())),
        "excluded": "; ".join(f"{shard}: {why}" for shard, why in record.excluded.items()),
        "weights": " ".join(f"{weight:.6g}" for weight in record.weights or ()),
    }
