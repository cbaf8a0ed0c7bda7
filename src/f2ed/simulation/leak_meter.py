"""The leak meter of a run: a forecast before it begins, and a reading after every round of what was really opened."""

from functools import cache

from f2ed.guarantees import Leak, Meter, leak
from f2ed.protocol.secagg import MaskedMode, scheme_of
from f2ed.protocol.secagg.schemes import AllOrNothing
from f2ed.protocol.sharding import Assignment, Schedule
from f2ed.records import LeakForecast, LeakReading
from f2ed.simulation.assignments import Assignments
from f2ed.simulation.checkpoint import Unopened
from f2ed.simulation.config import Experiment
from f2ed.simulation.opened_rows import OpenedRows

__all__ = ["LeakTracker", "as_record", "forecast", "unopened", "warning"]


def forecast(experiment: Experiment) -> Leak | None:
    """Return what the planned rounds would reveal; None without shards, where every update is seen anyway."""
    if not experiment.sharded:
        return None
    return _leak(
        experiment.clients,
        experiment.rows,
        experiment.schedule,
        experiment.rounds,
        experiment.client_dropout,
        experiment.shard_mode,
    )


@cache
def _leak(clients: int, shards: int, schedule: Schedule, rounds: int, client_dropout: float, mode: MaskedMode) -> Leak:
    """Compute the forecast once: the runs of a grid mostly differ in other settings."""
    return leak(
        clients=clients, shards=shards, schedule=schedule, rounds=rounds, client_dropout=client_dropout, mode=mode
    )


def as_record(found: Leak | None) -> LeakForecast | None:
    """Return the forecast for the header of a run."""
    if found is None:
        return None
    return LeakForecast(
        exposed=found.exposed,
        first=found.first,
        last=found.last,
        crowd=found.crowd,
        cosine=round(found.cosine, 4),
        leaks=found.leaks,
    )


def warning(experiment: Experiment) -> str | None:
    """Return what to change in a schedule that exposes a client within the planned rounds; None if it does not."""
    found = forecast(experiment)
    if found is None or not found.leaks:
        return None
    if found.schedule(found.rounds - 1) > 0:
        return f'schedule: {found.text} Use schedule = "fixed", which avoids it.'
    if found.client_dropout and scheme_of(found.mode).tolerates_dropouts:
        return f'protocol.mode: {found.text} Use mode = "{AllOrNothing.mode}", where dropouts open no smaller sums.'
    return f"shards: {found.text} Use fewer shards."


def unopened(rows: OpenedRows, assignment: Assignment) -> Unopened:
    """Return what a round did not open."""
    if rows.audit is None:
        return Unopened()
    opened = set(rows.shards)
    present = {client for each in rows.audit.shards if each.shard in opened for client in each.survivors}
    return Unopened(
        closed=tuple(shard for shard in range(len(assignment.shards)) if shard not in opened),
        dropped=tuple(
            client for shard in sorted(opened) for client in assignment.shards[shard] if client not in present
        ),
    )


class LeakTracker:
    """Reads the meter after each round; in a resumed run it catches up on the earlier rounds first."""

    def __init__(self, assignments: Assignments, clients: int) -> None:
        self._assignments = assignments
        self._meter = Meter(clients)
        self._past: tuple[Unopened, ...] = ()

    def __call__(self, rounds: tuple[Unopened, ...]) -> LeakReading:
        """Return the reading after these rounds."""
        known = len(self._past)
        if rounds[:known] != self._past:
            self._meter, known = Meter(self._meter.clients), 0
        for number in range(known, len(rounds)):
            self._meter.observe(_opened(self._assignments(number), rounds[number]))
        self._past = rounds
        meter = self._meter
        return LeakReading(rank=meter.rank, exposed=meter.exposed, first=meter.first, crowd=meter.crowd)


def _opened(assignment: Assignment, missed: Unopened) -> list[tuple[int, ...]]:
    dropped, closed = set(missed.dropped), set(missed.closed)
    return [
        tuple(client for client in members if client not in dropped)
        for shard, members in enumerate(assignment.shards)
        if shard not in closed
    ]
