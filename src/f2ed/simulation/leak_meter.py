"""The leak meter of a run: a forecast before it begins, and a reading after every round of what was really opened."""

from functools import cache

from f2ed.guarantees import ScheduleLeak, Unopened, forecast_leak
from f2ed.guarantees.helpers_plan import nested_warning
from f2ed.protocol.secagg import MaskedMode, scheme_of
from f2ed.protocol.secagg.schemes import AllOrNothing
from f2ed.protocol.sharding import Assignment, Schedule
from f2ed.records import text
from f2ed.simulation.config import Experiment
from f2ed.simulation.opened_rows import OpenedRows

__all__ = ["forecast", "unopened", "warning"]


def forecast(experiment: Experiment) -> ScheduleLeak | None:
    """Return what the planned rounds would reveal; None without shards, where every update is seen anyway."""
    if not experiment.sharded:
        return None
    return _forecast(
        experiment.clients,
        experiment.rows,
        experiment.schedule,
        experiment.rounds,
        experiment.client_dropout,
        experiment.shard_mode,
        experiment.sampled if experiment.sampled < experiment.clients else None,
    )


@cache
def _forecast(
    clients: int,
    shards: int,
    schedule: Schedule,
    rounds: int,
    client_dropout: float,
    mode: MaskedMode,
    clients_per_round: int | None,
) -> ScheduleLeak:
    """Compute the forecast once: the runs of a grid mostly differ in other settings."""
    return forecast_leak(
        clients=clients,
        shards=shards,
        schedule=schedule,
        rounds=rounds,
        client_dropout=client_dropout,
        mode=mode,
        clients_per_round=clients_per_round,
    )


def warning(experiment: Experiment) -> str | None:
    """Return what to change in a schedule that exposes a client within the planned rounds; None if it does not."""
    if experiment.helpers is not None:
        nested = nested_warning(experiment.helpers, clients=experiment.clients, rounds=experiment.rounds)
        return None if nested is None else f"protocol.guard: {nested}"
    found = forecast(experiment)
    if found is None or not found.leaks:
        return None
    finding = text.leak(found.record(), rounds=found.rounds, clients=found.clients)
    if found.schedule(found.rounds - 1) > 0:
        return f'schedule: {finding} Use schedule = "fixed", which avoids it.'
    if found.client_dropout and scheme_of(found.mode).tolerates_dropouts:
        return f'protocol.mode: {finding} Use mode = "{AllOrNothing.mode}", where dropouts open no smaller sums.'
    return f"shards: {finding} Use fewer shards."


def unopened(rows: OpenedRows, assignment: Assignment) -> Unopened:
    """Return what a round did not open."""
    if rows.audit is None:
        return Unopened()
    return Unopened.of(
        assignment, {each.shard: each.survivors for each in rows.audit.shards if each.shard in rows.shards}
    )
