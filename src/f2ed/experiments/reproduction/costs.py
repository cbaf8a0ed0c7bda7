"""What runs cost: seconds of the clock, and seconds of a device that several of them may have shared."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import NamedTuple

from f2ed.records import RunLog
from f2ed.records.text import plural

__all__ = ["costs"]


class _Span(NamedTuple):
    """When a run was at work, in seconds of the clock."""

    begin: float
    end: float


def costs(logs: Iterable[RunLog], beside: Iterable[RunLog] = ()) -> str:
    """Say, device by device, how long a run took, and how much of the device's own time it had if several shared it.

    A device is shared equally by the runs on it at a time, those of `beside` among them.
    """
    spans, others = _spans(logs), _spans(beside)
    said = (_said(device, mine, {*mine, *others[device]}) for device, mine in spans.items())
    return "; ".join(said) or "nothing was run"


def _spans(logs: Iterable[RunLog]) -> dict[str, list[_Span]]:
    """Return by device when each run was at work, as if it had not been interrupted."""
    found: dict[str, list[_Span]] = defaultdict(list)
    for log in logs:
        # Records of old do not say when they began.
        begin = datetime.fromisoformat(log.header.started).timestamp() if log.header.started else 0.0
        found[log.header.device].append(_Span(begin, begin + sum(record.seconds.total for record in log.rounds)))
    return found


def _said(device: str, spans: Sequence[_Span], every: Iterable[_Span]) -> str:
    own = _own_clock(span for span in every if span.begin)
    whole = sum(span.end - span.begin for span in spans) / len(spans)
    shared = sum(own[span.end] - own[span.begin] if span.begin else span.end for span in spans) / len(spans)
    # When a run began is known to the second.
    several = f", {shared:.0f} of the device's own" if whole - shared >= 1 else ""
    return f"{whole:.0f} seconds a run on {device}{several} ({plural(len(spans), 'run')})"


def _own_clock(spans: Iterable[_Span]) -> dict[float, float]:
    """Return a clock that goes slower the more runs are at work, at each time at which one begins or ends."""
    changes: Counter[float] = Counter()
    for span in spans:
        changes[span.begin] += 1
        changes[span.end] -= 1
    clock: dict[float, float] = {}
    passed, before, at_work = 0.0, 0.0, 0
    for time in sorted(changes):
        if at_work:
            passed += (time - before) / at_work
        clock[time], before, at_work = passed, time, at_work + changes[time]
    return clock
