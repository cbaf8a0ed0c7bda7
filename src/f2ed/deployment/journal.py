"""The journal of a deployment: its records, in the format that simulations write, and the lines of its log."""

import platform
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib.metadata import version
from logging import INFO, WARNING, getLogger
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np

from f2ed.deployment.opened import OpenedMeter, OpenedSum
from f2ed.deployment.preflight import announce, leak_forecast, noise_forecast
from f2ed.deployment.record_file import RecordFile
from f2ed.deployment.round_text import round_line
from f2ed.deployment.settings import ServerSettings
from f2ed.protocol.aggregation import Audit, StepResult
from f2ed.protocol.dp import Ledger
from f2ed.protocol.helpers import ServerGuard
from f2ed.protocol.sharding import ClientId
from f2ed.records import (
    Blamed,
    Deployed,
    LeakReading,
    NoiseRecord,
    Plugin,
    RoundRecord,
    RunHeader,
    Seconds,
    settings_digest,
)
from f2ed.records.grading import Region

__all__ = ["History", "Journal", "RoundOutcome", "SeenRows", "run_header"]

_log = getLogger("f2ed.deployment")


class History(NamedTuple):
    """What past rounds opened, for the accounts of privacy that run over all rounds."""

    ledger: Ledger = Ledger()
    rounds: int = 0
    """How many there were, in all runs that this one continues."""
    opened: tuple[OpenedSum, ...] = ()
    """Every sum that they opened, once."""


class SeenRows(NamedTuple):
    """The rows that the estimator saw, by their places in the run's header: shards, or clients with helpers."""

    total: int
    """All rows of the header."""
    places: tuple[int, ...]
    """Those that it saw, in its order."""
    missing: dict[int, str]
    """The others, and why."""

    @classmethod
    def of(cls, audit: Audit) -> "SeenRows":
        """Return the rows of a round in shards."""
        return cls(len(audit.shards), audit.opened, audit.missing)


class RoundOutcome(NamedTuple):
    """What a round came to, for its record. It names clients and reasons and holds nothing of any update."""

    audit: Audit
    rows: SeenRows
    result: StepResult
    errors: dict[ClientId, str]
    """Why a client did not answer, where more is known than the protocol, which saw only silence."""
    seconds: Seconds
    model_bytes: int = 0
    """What the models took that were sent to the clients."""
    late: Mapping[ClientId, str] = {}
    """Clients whose reply to an earlier round came after its deadline."""
    quarantined: Mapping[ClientId, str] = {}
    unled: tuple[int, int] | None = None
    """The first and last number of the protocol before this round that this run did not lead."""
    metrics: Mapping[str, int | float | list[int] | list[float]] | None = None
    """What the strategy returned beside the model."""
    guard: ServerGuard = ServerGuard()
    """With helpers: survivors and strikes of the epoch."""
    relayed: Mapping[str, int] = {}
    """With helpers: the bytes to and from each."""


def run_header(
    settings: ServerSettings, *, rounds: int, dimension: int, seed: int | None, versions: dict[str, str]
) -> RunHeader:
    """Describe a run; the seed of the estimator's draws is recorded only if the operator chose it."""
    roster, stated = settings.roster, settings.stated()
    return RunHeader(
        source="deployment",
        name=roster.name,
        digest=settings_digest(stated),
        settings=stated,
        versions={"f2ed": version("f2ed"), "python": platform.python_version(), "numpy": np.__version__} | versions,
        estimator=Plugin.of(settings.estimator),
        rounds=rounds,
        clients=len(roster.clients),
        shards=settings.rows,
        mode=settings.mode,
        crowd=settings.crowd,
        guarantee=msgspec.to_builtins(settings.guarantee(settings.round_rows)),
        tolerated=settings.estimator.assumed_f(settings.round_rows),
        dimension=dimension,
        seed=seed or 0,
        forecast=leak_forecast(settings, rounds=rounds),
        noise=_noise_record(settings, dimension, rounds),
        names=settings.names,
        started=_now(),
    )


def _noise_record(settings: ServerSettings, dimension: int, rounds: int) -> NoiseRecord | None:
    cost = noise_forecast(settings, coordinates=dimension, rounds=rounds)
    if cost is None:
        return None
    return NoiseRecord(
        noise_multiplier=cost.noise_multiplier,
        delta=cost.delta,
        clip_norm=cost.clip_norm,
        shard=cost.shard_deviation,
        shard_norm=cost.shard_norm,
        colluders=settings.protocol.colluders,
    )


class Journal:
    """Follows a run: describes each round, logs it, and writes it to the file of records, if there is one."""

    def __init__(
        self,
        settings: ServerSettings,
        header: RunHeader,
        path: Path | None,
        *,
        done: int,
        history: History,
        last: RoundRecord | None,
    ) -> None:
        self.history = history
        self._settings = settings
        self._header = header
        self._leak = OpenedMeter(settings.roster, history.opened, history.rounds)
        announce(header, settings.roster)
        self._file = None if path is None else RecordFile(path, header, done=done, last=last)

    def describe(self, outcome: RoundOutcome, *, round_: int = 0, attempts: tuple[str, ...] = ()) -> RoundRecord:
        """Return the record of a round and charge what it cost; `attempts` at it were skipped before."""
        audit, held = outcome.audit, self._settings.guarantee(len(outcome.rows.places))
        leak = self.charge(audit)
        return _round_record(
            outcome,
            round_=round_,
            attempts=attempts,
            guarantee="nothing" if held is None else held.region,
            leak=leak,
            dp_epsilon=self._dp_epsilon(audit),
        )

    def charge(self, audit: Audit) -> LeakReading:
        """Count what sums that were opened cost: those of a round, or of an evaluation under masks."""
        number = self.history.rounds
        leak = self._leak.observe(OpenedSum.all_of(audit, self._settings.roster, number + 1))
        self.history = History(self.history.ledger.charge(audit.privacy_costs), number + 1, self._leak.sums)
        return leak

    def log(self, record: RoundRecord) -> None:
        """Log a round in one line, and a line for each shard that was not used."""
        level, added = INFO if record.skipped is None else WARNING, {"event": "round", "round": record.round + 1}
        _log.log(level, "f2ed: %s", round_line(self._header, record), extra=added)
        for row, why in () if self._settings.helped else record.excluded.items():
            _log.warning("f2ed: shard %s was not used: %s", row, why)
        self._warn_of_clipping(record)
        deployed = _deployed(record)
        for each in deployed.blamed:
            _log.warning("f2ed: shard %s, blamed by evidence (%s): %s", each.shard, each.fault, each.reason)
        if deployed.unled is not None:
            _log.info(
                "f2ed: this round has number %s in the protocol; numbers %s to %s were not led by this run: earlier "
                "runs used them, or a crash cut one off",
                deployed.number,
                *deployed.unled,
            )

    def _warn_of_clipping(self, record: RoundRecord) -> None:
        """Say which clip changed updates: those of honest clients should not come near it."""
        encoding = self._settings.encoding
        if record.clipped:
            _log.warning(
                "f2ed: %s coordinates were clipped at %g, or at the clip of their array, summed over the clients; if "
                "these are honest, the model is damaged: sign the roster with a larger --clip-value, --buffer-clip or "
                "--array-clip",
                record.clipped,
                encoding.clip_value,
            )
        if record.shortened:
            _log.warning(
                "f2ed: %s updates were scaled down to the norm %g; if most are, sign the roster with a larger "
                "--clip-norm",
                record.shortened,
                encoding.clip_norm,
            )

    def write(self, record: RoundRecord) -> None:
        """Put a round on file."""
        if self._file is not None:
            self._file.write(record)

    def _dp_epsilon(self, audit: Audit) -> float | dict[ClientId, float] | None:
        """Return what everyone has spent, as one number where it is the same for all; None without noise."""
        if self._settings.noise is None:
            return None
        members = sorted(client for each in audit.shards for client in each.members)
        spent = self.history.ledger.dp_epsilon(members, delta=self._settings.noise.delta)
        return spent[members[0]] if len(set(spent.values())) == 1 else spent


def _round_record(
    outcome: RoundOutcome,
    *,
    round_: int,
    attempts: tuple[str, ...],
    guarantee: Region,
    leak: LeakReading,
    dp_epsilon: float | dict[ClientId, float] | None,
) -> RoundRecord:
    """Describe a round."""
    audit, estimate, step = outcome.audit, outcome.result.estimate, outcome.result.step
    rows, weights = outcome.rows, None
    excluded = dict(rows.missing)
    if estimate is not None:
        excluded |= {rows.places[row]: "not finite" for row in estimate.excluded}
        if estimate.weights is not None:
            by_place = dict(zip(rows.places, estimate.weights, strict=True))
            weights = tuple(float(by_place.get(place, 0.0)) for place in range(rows.total))
    dropped = {client: why for each in audit.shards for client, why in each.dropped.items()}
    clients = sum(len(each.members) for each in audit.shards)
    return RoundRecord(
        round=round_,
        deployed=Deployed(
            number=audit.round,
            unled=outcome.unled,
            attempts=attempts,
            late=dict(outcome.late),
            quarantined=dict(outcome.quarantined),
            relayed=dict(outcome.relayed),
            blamed=tuple(
                Blamed(shard=each.shard, clients=blame.clients, fault=blame.fault, reason=blame.reason)
                for each in audit.shards
                for blame in each.blame
            ),
        ),
        skipped=outcome.result.skipped,
        weights=weights,
        excluded=dict(sorted(excluded.items())),
        dropped={client: outcome.errors.get(client, why) for client, why in sorted(dropped.items())},
        eigenvalue=None if estimate is None else estimate.eigenvalue,
        iterations=0 if estimate is None else estimate.iterations,
        stopped="" if estimate is None else estimate.stopped,
        step=0.0 if step is None else float(np.linalg.norm(np.asarray(step, np.float64))),
        crowd=audit.crowd,
        clipped=sum(each.clipped for each in audit.shards),
        shortened=sum(each.shortened for each in audit.shards),
        bytes_up=round(sum(each.bytes_up for each in audit.shards) / clients),
        bytes_down=round((outcome.model_bytes + sum(each.bytes_down for each in audit.shards)) / clients),
        guarantee=guarantee,
        dp_epsilon=dp_epsilon,
        leak=leak,
        seconds=outcome.seconds,
        ended=_now(),
    )


def _deployed(record: RoundRecord) -> Deployed:
    return record.deployed or Deployed()


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
