"""What a run leaves behind: JSON lines, a header and then one line for each round.

A reader of an older or newer version loses nothing but what it does not know: unknown fields and unknown kinds of
lines are passed over. A last line that was cut off, as by a crash, is reported and not used.

The file of a run that is over may be compressed (`gzip -9n *.jsonl`): `.jsonl.gz` is read like `.jsonl`.
"""

import errno
import gzip
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, final

import msgspec

from f2ed.core.errors import ConfigError

__all__ = [
    "Record",
    "RoundRecord",
    "RunHeader",
    "RunLog",
    "Seconds",
    "holds_records",
    "line",
    "read",
    "read_folder",
    "unpacked",
]


@final
class Forecast(msgspec.Struct, frozen=True, kw_only=True):
    """What the leak meter says before the first round: what the planned rounds give away about single clients."""

    exposed: int
    """Clients whose own update the sums would determine."""
    first: int | None
    """After how many rounds the first of them is."""
    last: int | None
    """After how many rounds everyone is; None if not everyone is."""
    crowd: int
    """The smallest group whose sum would be determined."""
    cosine: float
    """Between what a server would find and what stays of a client's update."""
    leaks: bool
    """Whether that is too much: someone is determined, or everyone no better hidden than among two."""
    text: str


@final
class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """What the leak meter says after a round, of the sums that were really opened so far."""

    rank: int
    """Independent equations that the server has."""
    exposed: int
    """Clients whose own update they determine, as far as it stays the same."""
    first: int | None
    """After how many rounds the first of them was."""
    crowd: int
    """The smallest group whose sum they determine."""


@final
class RunHeader(msgspec.Struct, frozen=True, kw_only=True, tag_field="record", tag="run"):
    """What was run, and with what: enough to run it again."""

    name: str
    digest: str
    """SHA-256 of the settings: what tells one run from another."""
    settings: dict[str, Any]
    seed: int
    rounds: int
    versions: dict[str, str]
    device: str
    dimension: int
    """Coordinates of an update."""
    clients: int
    malicious: tuple[int, ...]
    """The clients that attack, or that would if there were an attack."""
    attacked: bool
    samples: tuple[int, ...]
    """Training samples of each client."""
    labels: tuple[tuple[int, ...], ...]
    """For each client, how many of its samples have each label."""
    shards: tuple[tuple[int, ...], ...]
    """The first deal; a schedule may deal anew."""
    mode: str
    """How updates are kept secret: a mode of the protocol, "clear" (added in the clear) or "none" (seen one by one)."""
    crowd: int
    """The fewest clients in whose mean an update is seen; 1 where nothing is hidden."""
    guarantee: dict[str, Any]
    verdict: str
    """What the guarantee says, in one sentence."""
    forecast: Forecast | None = None
    """Of the leak meter; None where no sums hide anybody, and in records of older versions."""
    notes: tuple[str, ...] = ()
    """What a reader should know about how the settings were understood."""
    arm: dict[str, str] = {}
    """What tells this run from the others of its file: setting and value."""
    started: str = ""
    """When, in UTC."""


@final
class Seconds(msgspec.Struct, frozen=True, kw_only=True):
    """The wall-clock time of each stage of a round."""

    train: float = 0.0
    """Next to nothing in a first round whose training another run had done."""
    attack: float = 0.0
    protect: float = 0.0
    """Waiting for clients to clip, encode and mask."""
    sum: float = 0.0
    """The server's part of the secure sums, and decoding."""
    estimate: float = 0.0
    evaluate: float = 0.0

    @property
    def total(self) -> float:
        """The whole round."""
        return float(sum(msgspec.structs.astuple(self)))


@final
class RoundRecord(msgspec.Struct, frozen=True, kw_only=True, tag_field="record", tag="round"):
    """One round: how good the model is after it, and what the server saw and believed."""

    round: int
    """Counts from 0."""
    accuracy: float
    loss: float | None
    """None where it is not a finite number."""
    success: float | None = None
    """Of a targeted attack, over inputs whose true label is not the one wanted."""
    success_every: float | None = None
    """The same over all inputs, as the authors of the paper count: well above zero without any attack."""
    weights: tuple[float, ...] | None = None
    """How much each shard was believed; sums to one. None for rules that choose anew in each coordinate."""
    excluded: dict[int, str] = {}
    """The shards that had no say, and why: they stayed closed, or were not finite."""
    contaminated: tuple[int, ...] = ()
    """The shards that held an attacker, which only a simulation knows."""
    eigenvalue: float | None = None
    iterations: int = 0
    stopped: str = ""
    """Why the estimator stopped."""
    step: float | None = None
    """The length by which the model moved."""
    crowd: int = 1
    """The fewest clients in whose sum an update was seen; 0 where nothing was opened."""
    clipped: int = 0
    """Coordinates cut off, over all clients."""
    clipped_honest: int = 0
    """Those in shards without an attacker: if there are many, the clip is too small."""
    shortened: int = 0
    """Updates shortened to the L2 clip."""
    bytes_up: int = 0
    """Sent by a client, on average; in the first round of an epoch with the keys that are agreed on for all of it."""
    bytes_down: int = 0
    """Sent to a client by the protocol, on average; the model itself is not counted."""
    guarantee: str = ""
    """Where the worst case falls with the shards that opened: theorem, experience or nothing."""
    epsilon: float | tuple[float, ...] | None = None
    """Of differential privacy, at the delta of the settings, over all rounds so far: one number where it is the same
    for all clients, else one for each; None without noise. The larger, the less is hidden."""
    meter: Reading | None = None
    """Of the leak meter; None where no sums hide anybody, and in records of older versions."""
    seconds: Seconds = Seconds()

    @property
    def largest_epsilon(self) -> float | None:
        """Of the client that has lost most."""
        return max(self.epsilon) if isinstance(self.epsilon, tuple) else self.epsilon

    @property
    def contaminated_weight(self) -> float | None:
        """The weight that fell on contaminated shards."""
        return None if self.weights is None else float(sum(self.weights[shard] for shard in self.contaminated))


Record = RunHeader | RoundRecord


class RunLog(NamedTuple):
    """What a file of records holds."""

    header: RunHeader
    rounds: tuple[RoundRecord, ...]
    torn: str | None = None
    """What was found of a line that was cut off; None if the file is whole."""

    @property
    def finished(self) -> bool:
        """Whether every round is there."""
        return len(self.rounds) >= self.header.rounds


def line(record: Record) -> bytes:
    """Return the record as one line."""
    return msgspec.json.encode(record) + b"\n"


def holds_records(path: Path) -> bool:
    """Say whether a file has the name of a run's, compressed or not."""
    return path.name.endswith((".jsonl", ".jsonl.gz"))


def unpacked(path: Path) -> bytes:
    """Return what is in a run's file, compressed or not; raise `OSError` if it cannot be read."""
    found = path.read_bytes()
    if path.suffix != ".gz":
        return found
    try:
        return gzip.decompress(found)
    except (gzip.BadGzipFile, EOFError, zlib.error):
        raise OSError(errno.EIO, "it is no gzip file, or only the beginning of one") from None


def read(path: Path) -> RunLog:
    """Read a run's file; raise `ConfigError` if it is none."""
    try:
        *lines, tail = unpacked(path).split(b"\n")
    except OSError as missing:
        raise ConfigError(f"{path} cannot be read: {missing.strerror}") from None
    records = list(_decoded(lines, path))
    if not records or not isinstance(records[0], RunHeader):
        raise ConfigError(f"{path} does not begin with the header of a run; is it a file that f2ed run has written?")
    rounds = tuple(record for record in records if isinstance(record, RoundRecord))
    return RunLog(records[0], rounds, tail.decode(errors="replace") if tail else None)


def read_folder(folder: Path) -> list[RunLog]:
    """Read all runs of a folder, in the order of their names."""
    return [read(path) for path in sorted(folder.iterdir()) if holds_records(path)]


def _decoded(lines: Iterable[bytes], path: Path) -> Iterator[Record]:
    decoder = msgspec.json.Decoder(Record)
    header: RunHeader | None = None
    for number, text in enumerate(lines, 1):
        try:
            record = decoder.decode(text)
        except msgspec.DecodeError as wrong:
            if not _known(text):
                continue
            raise ConfigError(f"{path}, line {number} is not a record: {wrong}; delete the file to run again") from None
        if isinstance(record, RunHeader):
            header = record
        elif header is not None and b'"crowd"' not in text:
            # Records of older versions say it once for all rounds.
            record = msgspec.structs.replace(record, crowd=header.crowd)
        yield record


def _known(text: bytes) -> bool:
    """Say whether a line claims to be of a kind that this version knows, or is no JSON object at all."""
    try:
        found = msgspec.json.decode(text)
    except msgspec.DecodeError:
        return True
    return not isinstance(found, dict) or found.get("record") in {"run", "round"}
