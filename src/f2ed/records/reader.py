"""Read records: one run's file, an archive of many runs, or a folder of either.

The lines of several runs may follow each other in one file, each begun by its header: that is an archive. Files may
be compressed (`.gz`, `.xz`). Unknown fields and unknown kinds of lines are skipped, so that records of a newer version
can be read; a last line that was cut off, as by a crash, is reported and not used.
"""

import errno
import gzip
import lzma
import zlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from f2ed.core.errors import ConfigError
from f2ed.records.intake import Intake, Problem, RecordedRun
from f2ed.records.migration import migrate_header, migrate_round
from f2ed.records.schema import Record, RoundRecord, RunHeader, RunLog

__all__ = [
    "SUFFIXES",
    "archive_of",
    "experiment_name",
    "find",
    "holds_records",
    "locate",
    "read",
    "read_all",
    "read_folder",
    "read_runs",
    "unpacked",
]

SUFFIXES = (".jsonl", ".jsonl.gz", ".jsonl.xz")

_DECODER = msgspec.json.Decoder(Record)
_BEGINNING = 60


def holds_records(path: Path) -> bool:
    """Return whether a file has the name of a file of records, compressed or not."""
    return path.name.endswith(SUFFIXES)


def experiment_name(path: Path) -> str:
    """Return the name of a file of records or of a folder, without the suffix."""
    suffix = next((each for each in reversed(SUFFIXES) if path.name.endswith(each)), "")
    return path.name.removesuffix(suffix)


def locate(path: Path) -> Path:
    """Return the path, or the archive of that name: `results/fig1_iid` stands for `results/fig1_iid.jsonl.xz`."""
    return path if path.exists() else archive_of(path) or path


def archive_of(folder: Path) -> Path | None:
    """Return the archive that stands beside a folder of records, whether or not there is the folder."""
    beside = (folder.with_name(folder.name + suffix) for suffix in SUFFIXES)
    return next((file for file in beside if file.is_file()), None)


def unpacked(path: Path) -> bytes:
    """Return the content of a file of records, decompressed; raise `OSError` if it cannot be read."""
    content = path.read_bytes()
    try:
        if path.suffix == ".gz":
            return gzip.decompress(content)
        return lzma.decompress(content) if path.suffix == ".xz" else content
    except (gzip.BadGzipFile, EOFError, zlib.error, lzma.LZMAError):
        raise OSError(errno.EIO, "not a compressed file, or only the beginning of one") from None


def read(path: Path | str) -> RunLog:
    """Read the file of one run; raise `ConfigError` if it is not one."""
    logs = read_all(path)
    if len(logs) != 1:
        raise ConfigError(f"{path} holds {len(logs)} runs; a file with a single run is needed here")
    return logs[0]


def read_all(path: Path | str) -> list[RunLog]:
    """Read every run of a file, an archive or a folder, in order; raise `ConfigError` for anything else."""
    path = locate(Path(path))
    if path.is_dir():
        return [log for file in sorted(path.iterdir()) if holds_records(file) for log in read_all(file)]
    try:
        *lines, tail = unpacked(path).split(b"\n")
    except OSError as missing:
        raise ConfigError(f"{path} cannot be read: {missing.strerror}") from None
    torn = tail.decode(errors="replace") if tail else None
    logs: list[tuple[RunHeader, list[RoundRecord]]] = []
    for record in _decoded(lines, path):
        if isinstance(record, RunHeader):
            logs.append((record, []))
        elif logs:
            logs[-1][1].append(record)
        else:
            break
    if not logs:
        raise ConfigError(f"{path} does not begin with the header of a run; is it a file that f2ed run has written?")
    return [RunLog(head, tuple(rounds), torn if head is logs[-1][0] else None) for head, rounds in logs]


def read_folder(folder: Path) -> list[RunLog]:
    """Read all runs of a folder, in the order of its file names."""
    return read_all(folder)


def find(paths: Iterable[Path | str]) -> dict[str, Path]:
    """Return the record files among files, archives and folders, by a short name that tells them apart."""
    found: dict[str, Path] = {}
    for path in (locate(Path(each)) for each in paths):
        if path.is_dir():
            inside = sorted(each for each in path.rglob("*.jsonl*") if holds_records(each))
            found |= {each.relative_to(path).as_posix(): each for each in inside}
        elif path.is_file():
            found[path.name if path.name not in found else path.as_posix()] = path
        else:
            raise ConfigError(f"{path} does not exist; name a folder that f2ed run has written to, or a .jsonl file")
    return found


def read_runs(paths: Sequence[Path], shown: int | None = None) -> tuple[list[RecordedRun], list[Problem]]:
    """Read all runs of files, archives and folders, and report what is wrong with them.

    At most about `shown` rounds of a run are kept, if given: of longer runs every second, fourth, … one. Raise
    `ConfigError` only where there is no file at all.
    """
    files = find(paths)
    if not files:
        raise ConfigError(f"no records (*.jsonl) in {', '.join(map(str, paths))}; make some with: f2ed run FILE.toml")
    runs, problems = [], []
    for name, path in files.items():
        intake = Intake(name, shown)
        try:
            intake.feed(unpacked(path))
        except OSError as error:
            problems.append(Problem(name, 0, f"cannot be read: {error.strerror}"))
            continue
        runs += intake.runs()
        problems += intake.problems()
    return runs, problems


def _decoded(lines: Iterable[bytes], path: Path) -> Iterator[Record]:
    older: RunHeader | None = None
    for number, text in enumerate(lines, 1):
        try:
            record = _DECODER.decode(text) if older is None and not _is_older(text) else _migrated(text, older)
        except msgspec.DecodeError as wrong:
            if _is_of_another_kind(text):
                continue
            raise ConfigError(
                f"{path}, line {number} is not a record: {wrong}; name a file of records, or delete this one to run "
                "again if it is damaged"
            ) from None
        if isinstance(record, RunHeader):
            older = record if _is_older(text) else None
        yield record


def _is_older(text: bytes) -> bool:
    """Return whether a line is a header of an older format; the format comes early in the line."""
    return text.startswith(b'{"record":"run"') and b'"format":' not in text[:_BEGINNING]


def _migrated(text: bytes, older: RunHeader | None) -> Record:
    found = msgspec.json.decode(text, type=dict[str, Any])
    if found.get("record") == "run":
        return msgspec.convert(migrate_header(found), RunHeader, str_keys=True)
    if found.get("record") == "round":
        return msgspec.convert(migrate_round(found, older.crowd if older else 1), RoundRecord, str_keys=True)
    raise msgspec.ValidationError(f"found a line of kind {found.get('record')!r}")


def _is_of_another_kind(text: bytes) -> bool:
    """Return whether a line is a JSON object of a kind that this version does not know."""
    try:
        found = msgspec.json.decode(text)
    except msgspec.DecodeError:
        return False
    return isinstance(found, dict) and found.get("record") not in {"run", "round"}
