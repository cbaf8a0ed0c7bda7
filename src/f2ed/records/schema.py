"""The records of a run: JSON lines, a header followed by one line per round (format 2).

Simulation and deployment write the same two kinds of lines. What only a simulation can know (who attacks, the test
accuracy, which shards are contaminated) is optional. Records hold numbers and names; `f2ed.records.text` puts them
into sentences. Client updates are never recorded.
"""

from math import nan
from typing import Any, Literal, NamedTuple, final

import msgspec
from msgspec import UNSET, UnsetType

from f2ed.records.plugin import Plugin
from f2ed.records.privacy_parts import LeakForecast, LeakReading, NoiseRecord

__all__ = [
    "FORMAT",
    "Deployed",
    "LeakForecast",
    "LeakReading",
    "NoiseRecord",
    "Plugin",
    "Record",
    "RoundRecord",
    "RunHeader",
    "RunLog",
    "Seconds",
    "Source",
    "line",
    "lines",
]

FORMAT = 2
"""The version that this code writes; older ones are migrated when they are read."""

Source = Literal["simulation", "deployment"]


@final
class RunHeader(msgspec.Struct, frozen=True, kw_only=True, tag_field="record", tag="run"):
    """What was run and with what; for a simulation, enough to run it again."""

    format: int = FORMAT
    source: Source = "simulation"
    name: str
    digest: str
    """SHA-256 of the settings (`f2ed.records.settings_digest`); a deployment without settings has its job name."""
    settings: dict[str, Any]
    versions: dict[str, str]
    sources: dict[str, str] | msgspec.UnsetType = msgspec.UNSET
    """SHA-256 of the source behind every import path in the settings."""
    data_sha256: str | msgspec.UnsetType = msgspec.UNSET
    """Of the training and test samples that were used."""
    estimator: Plugin
    attack: Plugin | None = None
    """None where nobody attacks, and in a deployment, which cannot know."""
    rounds: int
    """Planned."""
    clients: int
    shards: tuple[tuple[int, ...], ...]
    """The members of each shard in the first round; a schedule may assign them again later."""
    mode: str
    """The secure-aggregation mode, "clear" (summed without masks) or "none" (every update is seen)."""
    crowd: int
    """Every update is seen only in a sum over at least this many clients; 1 where nothing is hidden."""
    guarantee: dict[str, Any]
    """The fields of `f2ed.guarantees.Guarantee`."""
    tolerated: int | None = None
    """Rows that the estimator is set to tolerate; None for rules without such a setting."""
    dimension: int = 0
    """Coordinates of an update."""
    seed: int = 0
    device: str = ""
    forecast: LeakForecast | None = None
    """None where no sums hide anybody."""
    noise: NoiseRecord | None = None
    """None without differential privacy."""
    arm: dict[str, str] = {}
    """What distinguishes this run within its experiment: setting and value."""
    started: str = ""
    """UTC, ISO 8601."""
    malicious: tuple[int, ...] | None = None
    """The clients that attack, or would if there were an attack; None in a deployment."""
    samples: tuple[int, ...] | None = None
    """Training samples per client."""
    labels: tuple[tuple[int, ...], ...] | None = None
    """For each client, the number of samples per label."""
    names: dict[int, str] | UnsetType = UNSET
    """The clients' names on the roster; left out in a simulation."""

    @property
    def attacked(self) -> bool:
        """Whether malicious clients are known to attack."""
        return self.attack is not None


@final
class Seconds(msgspec.Struct, frozen=True, kw_only=True):
    """Wall-clock time of each stage of a round."""

    train: float = 0.0
    """Close to zero in a first round whose training another run of the grid has done."""
    attack: float = 0.0
    protect: float = 0.0
    """Clients clip, encode and mask."""
    exchange: float = 0.0
    """Deployment only: from the first invitation to the last reply, training included."""
    sum: float = 0.0
    """The server's part of secure aggregation, and decoding."""
    estimate: float = 0.0
    evaluate: float = 0.0

    @property
    def total(self) -> float:
        """The whole round."""
        return float(sum(msgspec.structs.astuple(self)))


@final
class Blamed(msgspec.Struct, frozen=True, kw_only=True):
    """A member of a shard that broke the protocol, or two of whom one did. The evidence is in the server's log."""

    shard: int
    clients: tuple[int, ...]
    fault: str
    """disputes or shares, if one is guilty; disputed, if nobody can tell which of two is."""
    reason: str


@final
class Deployed(msgspec.Struct, frozen=True, kw_only=True):
    """What a round has in a deployment alone."""

    number: int = 0
    """In the protocol, which counts over all runs of a federation."""
    unled: tuple[int, int] | None = None
    """The first and last number before this one that this run did not lead: earlier runs used them, or a crash cut one
    off. None if there are none."""
    attempts: tuple[str, ...] = ()
    """Attempts at this round that were skipped before, with their numbers and reasons."""
    late: dict[int, str] = {}
    """Clients whose reply to an earlier round came after its deadline."""
    quarantined: dict[int, str] = {}
    """Clients that are not asked in the next round since they failed repeatedly: for how long, after how many faults,
    and the last reason."""
    measured: dict[str, float | tuple[float, ...]] = {}
    """Metrics that the clients summed under masks: means over all whose shard opened."""
    relayed: dict[str, int] = {}
    """With helpers: bytes to and from the mixer and the judge."""
    blamed: tuple[Blamed, ...] = ()
    """Who broke the protocol in this round."""


@final
class RoundRecord(msgspec.Struct, frozen=True, kw_only=True, tag_field="record", tag="round"):
    """One round: how good the model is afterwards, what the server saw, and what it gave weight to."""

    round: int
    """Counts from 0."""
    accuracy: float | None = None
    """On the test set; None in a deployment, and where it is not a finite number."""
    loss: float | None = None
    """On the test set: cross-entropy, unless the settings name another loss."""
    metric: float | UnsetType = UNSET
    """On the test set: what the settings name, or the root mean squared error with the loss mse."""
    success: float | None = None
    """Of a targeted attack, over inputs whose true label is not the target."""
    success_every: float | None = None
    """The same over all inputs, as the paper's released code counts: well above zero without any attack."""
    success_unpoisoned: float | UnsetType = UNSET
    """Of the same trigger, over the same inputs, against a model that was never poisoned: that of the same round in the
    run without the attack. A trigger that is learned is learned against it, too. Only `f2ed search` measures it."""
    skipped: str | None = None
    """Why the model did not move; None if it did."""
    weights: tuple[float, ...] | None = None
    """The weight of each shard, summing to one; None for rules that choose per coordinate."""
    counted: dict[int, int] | UnsetType = UNSET
    """How much each opened shard counted before the estimator weighed it; left out where all counted the same."""
    excluded: dict[int, str] = {}
    """Shards that did not take part, and why: they stayed closed, or were not finite."""
    dropped: dict[int, str] = {}
    """Clients that did not take part, and why."""
    contaminated: tuple[int, ...] | None = None
    """Shards with an attacker among their members; None in a deployment, which cannot know."""
    eigenvalue: float | None = None
    iterations: int = 0
    stopped: str = ""
    """Why the estimator stopped."""
    step: float | None = None
    """The norm of the model's change."""
    crowd: int = 1
    """The smallest number of clients in a sum that was opened; 0 where none was."""
    clipped: int = 0
    """Coordinates clipped, over all clients."""
    clipped_honest: int = 0
    """Those in shards without an attacker, which only a simulation knows; if many, `clip_value` is too small."""
    shortened: int = 0
    """Updates scaled down to `clip_norm`."""
    bytes_up: int = 0
    """Sent by a client, on average; the first round of an epoch includes its key exchange."""
    bytes_down: int = 0
    """Sent to a client, on average. In a deployment with the model; a simulation counts the protocol's bytes alone."""
    guarantee: str = ""
    """Where the worst case falls with the shards that opened: theorem, experience or nothing."""
    dp_epsilon: float | dict[int, float] | None = None
    """Spent over all rounds so far, at the delta of the settings: one number where it is the same for all clients,
    else one for each; None without noise."""
    leak: LeakReading | None = None
    """None where no sums hide anybody."""
    seconds: Seconds = Seconds()
    ended: str = ""
    """UTC, ISO 8601; deployment only."""
    run_ended: str | UnsetType = UNSET
    """In the last round of a run that ended before its planned rounds: why."""
    deployed: Deployed | UnsetType = UNSET
    """Left out in a simulation."""

    @property
    def max_dp_epsilon(self) -> float | None:
        """Of the client that has spent most."""
        return max(self.dp_epsilon.values()) if isinstance(self.dp_epsilon, dict) else self.dp_epsilon

    @property
    def planted(self) -> float | None:
        """The success that is owed to poisoning; None where it was not measured."""
        if self.success is None or self.success_unpoisoned is UNSET:
            return None
        return max(0.0, self.success - self.success_unpoisoned)

    @property
    def rejected(self) -> tuple[int, ...]:
        """The shards that opened and were given no weight; none in a round that was skipped."""
        if self.skipped is not None:
            return ()
        return tuple(
            shard for shard, weight in enumerate(self.weights or ()) if weight == 0 and shard not in self.excluded
        )

    @property
    def contaminated_weight(self) -> float | None:
        """The weight on contaminated shards; None where it is not known."""
        if self.weights is None or self.contaminated is None:
            return None
        return float(sum(self.weights[shard] for shard in self.contaminated if shard < len(self.weights)))


Record = RunHeader | RoundRecord


class RunLog(NamedTuple):
    """The records of one run."""

    header: RunHeader
    rounds: tuple[RoundRecord, ...]
    torn: str | None = None
    """The beginning of a last line that was cut off; None if the file is whole."""

    @property
    def finished(self) -> bool:
        """Whether every planned round is there, or the run ended early."""
        return len(self.rounds) >= self.header.rounds or bool(self.rounds and self.rounds[-1].run_ended)

    @property
    def final_accuracy(self) -> float:
        """After the last round; NaN where it was not measured."""
        measured = self.rounds[-1].accuracy if self.rounds else None
        return nan if measured is None else measured


def line(record: Record) -> bytes:
    """Return the record as one line."""
    return msgspec.json.encode(record) + b"\n"


def lines(log: RunLog) -> bytes:
    """Return a run as the lines of its file."""
    return line(log.header) + b"".join(map(line, log.rounds))
