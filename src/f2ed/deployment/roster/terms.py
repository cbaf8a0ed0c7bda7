"""What a signed roster says about a round: the task that the server sets, and the terms that a client derives."""

from f2ed.core.errors import ConfigError, Refusal
from f2ed.deployment.roster.roster import Roster
from f2ed.protocol.aggregation import Task, terms_of
from f2ed.protocol.quantization.clip_counters import coordinates_of
from f2ed.protocol.secagg import Terms
from f2ed.protocol.sharding import ClientId

__all__ = ["derived_terms", "round_task"]

_NO_MODEL = bytes(32)


def round_task(roster: Roster, job: str, round_: int, *, model: bytes, coordinates: int) -> Task:
    """Return what the clients are asked for in a round, counted from 0."""
    weights = {entry.id: entry.weight for entry in roster.clients}
    return Task(
        job=job,
        round=round_,
        model=model,
        coordinates=coordinates,
        encoding=roster.encoding.to_encoding(),
        roster=roster.keys,
        protocol=roster.protocol,
        epoch=roster.key_epoch(round_),
        weights=weights if roster.weight_cap > 1 else None,
        weight_cap=roster.weight_cap,
        noise=roster.noise_multiplier,
        groups=_groups(roster),
    )


def derived_terms(roster: Roster, run: int, client: ClientId, round_: int, length: int) -> Terms:
    """Return the only terms that a client follows in a round, for a vector of this many words."""
    assignment = roster.assignment(round_)
    shard = roster.drawn_shard(client, assignment, round_)
    try:
        coordinates = coordinates_of(length, roster.encoding.bits)
        task = round_task(roster, roster.job(run), round_, model=_NO_MODEL, coordinates=coordinates)
        return terms_of(assignment, task, shard)
    except ConfigError as error:
        raise Refusal(f"no terms for round {round_} follow from the roster: {error}") from None


def _groups(roster: Roster) -> tuple[tuple[ClientId, ...], ...]:
    """Return who is opened together; nobody where everyone is a group of one."""
    found = tuple(sorted(group.members for group in roster.groups))
    return found if any(len(group) > 1 for group in found) else ()
