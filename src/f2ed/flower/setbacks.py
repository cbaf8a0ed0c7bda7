"""Ends a run that leads nowhere: rounds in a row that were skipped, or in which nobody's training changed anything."""

from logging import getLogger
from typing import final

from f2ed.core.errors import OutageError
from f2ed.protocol.aggregation import StepResult

__all__ = ["Setbacks"]

_log = getLogger("f2ed.flower")

_NOTHING = (
    "the mean of all updates is exactly zero: training changes nothing, or it failed at every client, for which with "
    "helpers zeros leave; the logs of the nodes say why"
)


@final
class Setbacks:
    """Counts rounds without progress, and raises `OutageError` after so many in a row."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._skipped = self._idle = 0

    def after(self, result: StepResult, *, finished: int) -> None:
        """Take down how a round ended, after which so many are finished."""
        if result.skipped is not None:
            self._skipped += 1
            if self._skipped >= self._most:
                raise OutageError(
                    f"round {finished + 1} was skipped {self._skipped} times in a row, the last time because "
                    f"{result.skipped}. See the log for the clients that dropped out, then run again; with a "
                    f"checkpoint the run continues after round {finished}"
                )
            return
        self._skipped = 0
        if result.estimate is None or result.estimate.mean.any():
            self._idle = 0
            return
        self._idle += 1
        _log.warning("f2ed: round %s: %s", finished, _NOTHING)
        if self._idle >= self._most:
            raise OutageError(f"in {self._idle} rounds in a row, up to round {finished}, {_NOTHING}")
