"""Event files that TensorBoard reads."""

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from f2ed.core.errors import MissingExtra
from f2ed.records import RoundRecord, RunHeader
from f2ed.report.sinks.base import Sink, Stream, values

__all__ = ["EventFile", "TensorBoard"]


class EventFile(Stream):
    """The events of one run, in a folder of its own; those of an earlier export are replaced."""

    def __init__(self, folder: Path, header: RunHeader) -> None:
        writer, self._event, self._summary = _library()
        for old in folder.glob("events.out.tfevents.*"):
            old.unlink()
        self._writer = writer(str(folder))
        self._clock = _began(header)
        self.count = 0

    def send(self, record: RoundRecord) -> None:
        """Write the numbers of one round, at the time when it ended."""
        self._clock += record.seconds.total
        found = [self._summary.Value(tag=tag, simple_value=value) for tag, value in values(record).items()]
        summary = self._summary(value=found)
        self._writer.add_event(self._event(wall_time=self._clock, step=record.round, summary=summary))
        self._writer.flush()
        self.count += len(found)

    def close(self, *, finished: bool) -> None:  # noqa: ARG002  an event file has no end
        """Close the file."""
        self._writer.close()


class TensorBoard(Sink):
    """A folder for `tensorboard --logdir`."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        _library()
        self._folder = folder

    def open(self, header: RunHeader, rounds: Sequence[RoundRecord]) -> Stream:  # noqa: ARG002  written again
        """Begin the event file of a run."""
        name = "".join(letter if letter.isalnum() or letter in "-_.+=" else "-" for letter in header.name)
        return EventFile(self._folder / f"{name}-{header.digest[:8]}", header)


def _library() -> tuple[Any, Any, Any]:
    try:
        from tensorboard.compat.proto.event_pb2 import Event  # noqa: PLC0415  an optional dependency
        from tensorboard.compat.proto.summary_pb2 import Summary  # noqa: PLC0415  an optional dependency
        from tensorboard.summary.writer.event_file_writer import EventFileWriter  # noqa: PLC0415  an optional dependency
    except ModuleNotFoundError:
        raise MissingExtra("TensorBoard", "tensorboard") from None
    return EventFileWriter, Event, Summary


def _began(header: RunHeader) -> float:
    """Return when the run began; events without a known beginning begin with the epoch."""
    try:
        return datetime.fromisoformat(header.started).timestamp()
    except ValueError:
        return 0.0
