"""The file of a deployment's records, over restarts of its writer."""

from pathlib import Path

import msgspec

from f2ed.core.errors import ConfigError
from f2ed.core.files import append, unwritable, write_atomic
from f2ed.records import RoundRecord, RunHeader, line, read

__all__ = ["RecordFile"]


class RecordFile:
    """A file of records that survives restarts of its writer: no round is missing, none is written twice."""

    def __init__(self, path: Path, header: RunHeader, *, done: int, last: RoundRecord | None = None) -> None:
        """Begin the file, or continue it after `done` rounds, of which `last` may not have been written."""
        self._path = path
        if path.is_dir():
            raise ConfigError(f"the records {path} is a folder; name a file")
        try:
            written = self._continue(header, done) if path.exists() else self._begin(header)
        except OSError as error:
            raise ConfigError(
                f"the records {path} cannot be written: {error.strerror}; name another file, or make it writable"
            ) from None
        if last is not None and last.round >= written:
            self.write(last)

    def write(self, record: RoundRecord) -> None:
        """Add a round; once this returns, a crash no longer loses it."""
        try:
            append(self._path, line(record))
        except OSError as error:
            # The checkpoint holds the record, so the next run writes it.
            raise ConfigError(unwritable(self._path, error, "the records")) from None

    def _begin(self, header: RunHeader) -> int:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(self._path, line(header), mode=0o644)
        return 0

    def _continue(self, header: RunHeader, done: int) -> int:
        """Check that the file belongs to this run and cut off an unfinished line; return how many rounds it holds."""
        found = read(self._path)
        before = found.header
        if (before.source, before.name) != (header.source, header.name):
            raise ConfigError(
                f"{self._path} holds the records of {before.name!r} ({before.source}), and this is {header.name!r} "
                f"({header.source}); name another file"
            )
        rounds = found.rounds[-1].round + 1 if found.rounds else 0
        if rounds > done:
            raise ConfigError(
                f"{self._path} holds {rounds} rounds, and this run continues after round {done}; name another file, or "
                "the checkpoint that belongs to these records"
            )
        header = msgspec.structs.replace(header, started=before.started)
        write_atomic(self._path, line(header) + b"".join(map(line, found.rounds)), mode=0o644)
        return rounds
