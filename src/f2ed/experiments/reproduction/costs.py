"""What runs cost: wall-clock seconds, and each run's share of a device used by several at once."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import NamedTuple

from f2ed.records import RunLog
from f2ed.records.text import plural

__all__ = ["costs"]


class _Span(NamedTuple):
    """When a run was active, in seconds."""

    begin: float
    end: float


def costs(logs: Iterable[RunLog], others: Iterable[RunLog] = ()) -> str:
    """Describe by device how long a run took, and its share of the device's time if several ran at once.

    Concurrent runs, including those of `others`, share a device equally.
    """
    spans, every = _spans(logs), _spans(others)
    texts = (_text(device, mine, {*mine, *every[device]}) for device, mine in spans.items())
    return "; ".join(texts) or "nothing was run"


def _spans(logs: Iterable[RunLog]) -> dict[str, list[_Span]]:
    """Return by device when each run was active, as if it had not been interrupted."""
    found: dict[str, list[_Span]] = defaultdict(list)
    for log in logs:
        # Old records lack the start time.
        begin = datetime.fromisoformat(log.header.started).timestamp() if log.header.started else 0.0
        found[log.header.device].append(_Span(begin, begin + sum(record.seconds.total for record in log.rounds)))
    return found


def _text(device: str, spans: Sequence[_Span], every: Iterable[_Span]) -> str:
    own = _own_clock(span for span in every if span.begin)
    whole = sum(span.end - span.begin for span in spans) / len(spans)
    shared = sum(own[span.end] - own[span.begin] if span.begin else span.end for span in spans) / len(spans)
    # Start times are known to the second.
    several = f", {shared:.0f} of device time" if whole - shared >= 1 else ""
    return f"{whole:.0f} seconds per run on {device}{several} ({plural(len(spans), 'run')})"


def _own_clock(spans: Iterable[_Span]) -> dict[float, float]:
    """Return device time per run at each start and end of a run; it passes more slowly the more runs are active."""
    changes: Counter[float] = Counter()
    for span in spans:
        changes[span.begin] += 1
        changes[span.end] -= 1
    clock: dict[float, float] = {}
    passed, before, active = 0.0, 0.0, 0
    for time in sorted(changes):
        if active:
            passed += (time - before) / active
        clock[time], before, active = passed, time, active + changes[time]
    return clock
