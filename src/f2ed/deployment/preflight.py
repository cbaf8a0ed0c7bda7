"""What is checked and logged before a deployment starts: guarantees, crowd, and what the planned rounds would leak."""

from logging import INFO, WARNING, getLogger

from f2ed.core.errors import ConfigError
from f2ed.deployment.opened import forecast
from f2ed.deployment.roster import Roster
from f2ed.deployment.settings import ServerSettings
from f2ed.estimators import Estimator
from f2ed.guarantees import Guarantee, guarantee
from f2ed.protocol.dp import NoiseCost, noise_cost
from f2ed.records import LeakForecast, RunHeader, text

__all__ = ["announce", "check", "check_weights", "leak_forecast", "min_shards", "noise_forecast"]

_log = getLogger("f2ed.deployment")


def check(roster: Roster, malicious: int, min_crowd: int, *, accept_no_guarantee: bool) -> Guarantee:
    """Refuse numbers that guarantee nothing, and return what holds."""
    if roster.helpers:
        raise ConfigError(
            "the roster names helpers, so its nodes send nothing that is summed in shards; lead its rounds with "
            "f2ed.flower.HelpedRounds, or use a roster without helpers"
        )
    clients, shards, crowd = roster.round_clients, roster.round_shards, roster.smallest_shard
    held = guarantee(clients=clients, malicious=malicious, shards=shards)
    wrong = []
    if crowd < min_crowd:
        wrong.append(
            f"{clients} clients in {shards} shards hide each update among {crowd}, fewer than min_crowd = {min_crowd}; "
            "sign the roster for fewer shards, or add clients"
        )
    if held.region == "nothing":
        wrong.append(
            f"{malicious} malicious clients can contaminate half of {shards} shards or more, where no estimator "
            "helps; assume fewer, or sign the roster for more shards (f2ed plan shows what works)"
        )
    if wrong and not accept_no_guarantee:
        raise ConfigError("; ".join(wrong) + ". To run without a guarantee, pass accept_no_guarantee=True")
    for each in wrong:
        _log.warning("f2ed: NO GUARANTEE, as accepted: %s", each)
    return held


def check_weights(roster: Roster, estimator: Estimator) -> None:
    """Refuse an estimator that has no version for the weights that were signed; without any, everyone counts alike."""
    weights = {entry.weight for entry in roster.clients}
    if len(weights) > 1 and not estimator.takes_weights():
        raise ConfigError(
            f"{estimator.title} is not defined for rows of different weights, and the roster was signed with weights "
            f"from {min(weights)} to {max(weights)}; use another estimator, such as FilterL2, or sign equal ones"
        )


def min_shards(roster: Roster, malicious: int, given: int | None) -> int:
    """Return how many shards must open; by default two per assumed attacker plus one, and refuse what never happens."""
    if given is None:
        return min(2 * malicious + 1, roster.round_shards)
    if not 1 <= given <= roster.round_shards:
        sampled = " in a round" if roster.round_shards < roster.shards else ""
        raise ConfigError(
            f"min_shards = {given}, and the roster has {roster.round_shards} shards{sampled}; choose a number from 1 "
            f"to {roster.round_shards}, or every round is skipped"
        )
    return given


def announce(header: RunHeader, roster: Roster) -> None:
    """Log what this run guarantees, and what its rounds would reveal about single clients."""
    _log.info("f2ed: roster %r, serial %s: %s", roster.name, roster.serial, text.summary(header))
    if header.forecast is not None:
        advice = " Sign the roster without --every to keep the shards." if header.forecast.leaks else ""
        _log.log(WARNING if header.forecast.leaks else INFO, "f2ed: %s%s", text.forecast(header), advice)


def leak_forecast(settings: ServerSettings, *, rounds: int) -> LeakForecast:
    """Return what the planned rounds would reveal if every shard opened whole, with all former groups."""
    return forecast(settings.roster, rounds=max(1, rounds))


def noise_forecast(settings: ServerSettings, *, coordinates: int, rounds: int) -> NoiseCost | None:
    """Log how large the noise is and the epsilon that it gives; raise `ConfigError` if it does not fit."""
    if settings.noise is None:
        return None
    roster, protocol = settings.roster, settings.protocol
    cost = noise_cost(
        settings.noise,
        settings.encoding,
        coordinates=coordinates,
        members=roster.smallest_shard,
        carriers=protocol.carriers_for(roster.smallest_shard),
        shards=roster.round_shards,
        rounds=max(rounds, 1),
        colluders=protocol.colluders,
        clear=not settings.secure,
    )
    _log.info(
        "f2ed: every shard mean carries noise with a standard deviation of %.3g per coordinate and a norm of %.3g, "
        "where an update's norm is at most %g; after %s rounds a client's epsilon is at most %.3g at delta %g",
        cost.shard_deviation,
        cost.shard_norm,
        cost.clip_norm,
        cost.rounds,
        cost.dp_epsilon,
        cost.delta,
    )
    return cost
