"""What is checked and logged before a deployment starts: guarantees, crowd, and what the planned rounds would leak."""

from logging import INFO, WARNING, getLogger

from f2ed.core.errors import ConfigError, Refusal
from f2ed.deployment.opened import forecast
from f2ed.deployment.roster import Roster, check_countersigned, round_members, smallest_sum
from f2ed.deployment.settings import ServerSettings, Stated
from f2ed.estimators import Estimator, FilterL2
from f2ed.guarantees import Guarantee, guarantee
from f2ed.protocol.aggregation import ServerOptimizer
from f2ed.protocol.dp import NoiseCost, noise_cost
from f2ed.records import LeakForecast, RunHeader, text

__all__ = [
    "announce",
    "check",
    "check_weights",
    "checked_settings",
    "leak_forecast",
    "noise_forecast",
]

_log = getLogger("f2ed.deployment")


_DEFAULT = FilterL2(contamination=0.1)


def checked_settings(
    roster: Roster,
    stated: Stated,
    *,
    estimator: Estimator | None,
    delta: float,
    malicious: int | None,
    min_shards: int | None,
    min_crowd: int,
    secure: bool,
    optimizer: ServerOptimizer,
    accept_no_guarantee: bool,
) -> ServerSettings:
    """Return the settings of a server, or refuse numbers that guarantee nothing. What is None follows from others."""
    rule = _rule(roster, estimator)
    rows = len(round_members(roster)) if roster.helpers else roster.round_shards
    assumed = (rule.assumed_f(rows) or 0) if malicious is None else malicious
    check(roster, assumed, min_crowd, accept_no_guarantee=accept_no_guarantee)
    check_weights(roster, rule)
    return ServerSettings(
        roster=roster,
        estimator=rule,
        encoding=stated.encoding(roster),
        noise=stated.noise(roster, delta=delta),
        malicious=assumed,
        min_shards=_min_shards(roster, assumed, min_shards),
        secure=secure,
        optimizer=optimizer,
    )


def _rule(roster: Roster, given: Estimator | None) -> Estimator:
    """Return the estimator; with helpers the judge applies the one that was signed."""
    if not roster.helpers:
        return _DEFAULT if given is None else given
    if given not in (None, roster.helpers.rule):
        raise ConfigError(
            f"estimator = {given}, and the judge applies the rule of the roster, {roster.helpers.rule}; leave it out, "
            "or sign another: f2ed roster helper-settings --rule"
        )
    return roster.helpers.rule


def check(roster: Roster, malicious: int, min_crowd: int, *, accept_no_guarantee: bool) -> Guarantee:
    """Refuse numbers that guarantee nothing, and return what holds."""
    if roster.helpers:
        return _check_helped(roster, malicious, min_crowd, accept_no_guarantee=accept_no_guarantee)
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
    _accept(wrong, accept_no_guarantee=accept_no_guarantee)
    return held


def _check_helped(roster: Roster, malicious: int, min_crowd: int, *, accept_no_guarantee: bool) -> Guarantee:
    """Refuse helpers that did not agree to serve, and numbers that guarantee nothing."""
    try:
        check_countersigned(roster)
    except Refusal as error:
        raise ConfigError(str(error)) from None
    clients, crowd = len(round_members(roster)), smallest_sum(roster)
    held, wrong = guarantee(clients=clients, malicious=malicious, shards=clients), []
    if crowd < min_crowd:
        wrong.append(
            f"sums of {crowd} clients may be opened, fewer than min_crowd = {min_crowd}; sign the roster with a larger "
            "crowd (f2ed roster helper-settings --crowd), or demand less here"
        )
    if held.region == "nothing":
        wrong.append(f"{malicious} malicious clients of {clients}, where no estimator helps; assume fewer")
    _accept(wrong, accept_no_guarantee=accept_no_guarantee)
    return held


def _accept(wrong: list[str], *, accept_no_guarantee: bool) -> None:
    if wrong and not accept_no_guarantee:
        raise ConfigError("; ".join(wrong) + ". To run without a guarantee, pass accept_no_guarantee=True")
    for each in wrong:
        _log.warning("f2ed: NO GUARANTEE, as accepted: %s", each)


def check_weights(roster: Roster, estimator: Estimator) -> None:
    """Refuse an estimator that has no version for the weights that were signed; without any, everyone counts alike."""
    weights = {entry.weight for entry in roster.clients}
    if len(weights) > 1 and not estimator.takes_weights():
        raise ConfigError(
            f"{estimator.title} is not defined for rows of different weights, and the roster was signed with weights "
            f"from {min(weights)} to {max(weights)}; use another estimator, such as FilterL2, or sign equal ones"
        )


def _min_shards(roster: Roster, malicious: int, given: int | None) -> int:
    """Return how many shards must open; by default two per assumed attacker plus one, and refuse what never happens."""
    if roster.helpers:
        if given is not None:
            raise ConfigError(
                f"min_shards = {given}, and the roster has helpers in place of shards; leave it out: the roster's "
                "crowd is the smallest sum that is opened"
            )
        return 0
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
    for note in text.helpers(header):
        _log.info("f2ed: %s", note)
    if header.forecast is not None:
        advice = " Sign the roster without --every to keep the shards." if header.forecast.leaks else ""
        _log.log(WARNING if header.forecast.leaks else INFO, "f2ed: %s%s", text.forecast(header), advice)


def leak_forecast(settings: ServerSettings, *, rounds: int) -> LeakForecast | None:
    """Return what the planned rounds would reveal if every shard opened whole, with all former groups.

    None with helpers: who will be in their sums is not known before.
    """
    return None if settings.helped else forecast(settings.roster, rounds=max(1, rounds))


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
