"""The leak meter of a run: a forecast before it begins, and a reading after every round of what was really opened."""

from collections.abc import Callable
from functools import cache

from f2ed.guarantees import Leak, Meter, leak
from f2ed.protocol.secagg import MaskedMode, scheme_of
from f2ed.protocol.secagg.schemes import AllOrNothing
from f2ed.protocol.sharding import Assignment, Schedule
from f2ed.records import LeakForecast, LeakReading
from f2ed.simulation.checkpoint import Away
from f2ed.simulation.config import Experiment
from f2ed.simulation.shard_rows import Rows

__all__ = ["Follower", "as_record", "away", "forecast", "warning"]


def forecast(experiment: Experiment) -> Leak | None:
    """Say what the planned rounds would give away; None without shards, where every update is seen anyway."""
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
    """Remember what was worked out: the runs of a grid mostly differ in other things."""
    return leak(
        clients=clients, shards=shards, schedule=schedule, rounds=rounds, client_dropout=client_dropout, mode=mode
    )


def as_record(found: Leak | None) -> LeakForecast | None:
    """Return the forecast as the header of a run has it."""
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
    """Say what is wrong with a schedule that exposes someone within the planned rounds; None if it does not."""
    found = forecast(experiment)
    if found is None or not found.leaks:
        return None
    if found.schedule(found.rounds - 1) > 0:
        return f'schedule: {found.text} With schedule = "fixed" it would not be so.'
    if found.client_dropout and scheme_of(found.mode).tolerates_dropouts:
        return f'protocol.mode: {found.text} With mode = "{AllOrNothing.mode}" dropouts open no smaller sums.'
    return f"shards: {found.text} Use fewer shards."


def away(rows: Rows, plan: Assignment) -> Away:
    """Return what a round did not open."""
    if rows.audit is None:
        return Away()
    opened = set(rows.numbers)
    there = {client for each in rows.audit.shards if each.shard in opened for client in each.survivors}
    return Away(
        closed=tuple(number for number in range(len(plan.shards)) if number not in opened),
        silent=tuple(client for number in sorted(opened) for client in plan.shards[number] if client not in there),
    )


class Follower:
    """Reads the meter after each round; where rounds came before it, it takes them in first."""

    def __init__(self, plan: Callable[[int], Assignment], clients: int) -> None:
        self._plan = plan
        self._meter = Meter(clients)
        self._past: tuple[Away, ...] = ()

    def __call__(self, rounds: tuple[Away, ...]) -> LeakReading:
        """Return the reading after these rounds."""
        known = len(self._past)
        if rounds[:known] != self._past:
            self._meter, known = Meter(self._meter.clients), 0
        for number in range(known, len(rounds)):
            self._meter.observe(_opened(self._plan(number), rounds[number]))
        self._past = rounds
        meter = self._meter
        return LeakReading(rank=meter.rank, exposed=meter.exposed, first=meter.first, crowd=meter.crowd)


def _opened(plan: Assignment, missed: Away) -> list[tuple[int, ...]]:
    silent, closed = set(missed.silent), set(missed.closed)
    return [
        tuple(client for client in members if client not in silent)
        for number, members in enumerate(plan.shards)
        if number not in closed
    ]
