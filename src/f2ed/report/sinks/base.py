"""What follows a run and sends its numbers elsewhere."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import final

from f2ed.records import RoundRecord, RunHeader, RunLog
from f2ed.records.columns import numbers

__all__ = ["Sink", "Stream", "tag", "values"]


class Stream(ABC):
    """One run in another tool. A number is sent once, also if the run was interrupted and resumed."""

    @abstractmethod
    def send(self, record: RoundRecord) -> None:
        """Send the numbers of one round."""

    @abstractmethod
    def close(self, *, finished: bool) -> None:
        """Flush everything; say whether the run is complete."""


class Sink(ABC):
    """Another tool, with one stream per run; runs of one command may overlap."""

    def __init__(self) -> None:
        self._streams: dict[str, Stream] = {}
        self._sent: dict[str, int] = {}

    @final
    def follow(self, log: RunLog, *, finished: bool) -> None:
        """Send the rounds of a run that were not sent before; call it again as the run goes on."""
        run = log.header.digest
        if run not in self._streams:
            self._streams[run] = self.open(log.header, log.rounds)
            self._sent[run] = 0
        for record in log.rounds[self._sent[run] :]:
            self._streams[run].send(record)
        self._sent[run] = len(log.rounds)
        if finished:
            self._streams.pop(run).close(finished=True)

    @final
    def close(self) -> None:
        """Close the streams of runs that were interrupted."""
        for stream in self._streams.values():
            stream.close(finished=False)
        self._streams.clear()

    @abstractmethod
    def open(self, header: RunHeader, rounds: Sequence[RoundRecord]) -> Stream:
        """Begin or continue the stream of a run, which has these rounds so far."""


def values(record: RoundRecord) -> dict[str, float]:
    """Return the known numbers of a round by their tags."""
    return {tag(name): float(value) for name, value in numbers(record).items() if value is not None}


def tag(name: str) -> str:
    """Group the seconds of a round's stages apart from what the round gave."""
    stage, _, rest = name.partition("seconds_")
    return f"seconds/{rest}" if rest else f"round/{stage}"
