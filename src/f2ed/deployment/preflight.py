"""What the numbers of a federation promise before it starts, and what the opened sums give away while it runs."""

from logging import INFO, WARNING, getLogger

from f2ed.core.errors import ConfigError
from f2ed.deployment.roster import Roster
from f2ed.guarantees import Guarantee, forecast_leak, guarantee
from f2ed.protocol.aggregation import Protocol
from f2ed.protocol.dp import Noise, noise_cost
from f2ed.protocol.quantization.encoding import Encoding
from f2ed.records import text

__all__ = ["announce_noise", "check", "warn_of_leaks"]

_log = getLogger("f2ed.deployment")


def check(roster: Roster, malicious: int, min_crowd: int, *, accept_no_guarantee: bool) -> None:
    """Refuse numbers that promise nothing, and say what they do promise."""
    clients, shards, hidden = len(roster.clients), roster.shards, roster.fewest
    held = guarantee(clients=clients, malicious=malicious, shards=shards)
    wrong = []
    if hidden < min_crowd:
        wrong.append(
            f"{clients} clients in {shards} shards hide each among {hidden}, fewer than the "
            f"{min_crowd} of min_crowd; sign the roster for fewer shards, or bring more clients"
        )
    if held.region == "nothing":
        wrong.append(
            f"{malicious} malicious clients can spoil half of {shards} shards or more, where no estimator "
            "helps; fear fewer, or sign the roster for more shards (f2ed plan shows what works)"
        )
    if wrong and not accept_no_guarantee:
        raise ConfigError("; ".join(wrong) + ". To run without a guarantee say accept_no_guarantee=True")
    for each in wrong:
        _log.log(WARNING, "f2ed: NO GUARANTEE, as accepted: %s", each)
    _log.log(INFO, "f2ed: %s", _promise(held, roster))


def _promise(held: Guarantee, roster: Roster) -> str:
    against = {
        "theorem": f"a theorem covers {held.malicious} malicious" if held.malicious else "no attacker is feared",
        "experience": f"{held.malicious} malicious are beyond the theorem (12·m < p): experience only",
        "nothing": "nothing holds against malicious clients",
    }[held.region]
    return (
        f"roster {roster.name!r}, serial {roster.serial}: {held.clients} clients in {held.shards} shards, each hidden "
        f"among at least {roster.fewest}; {against}"
    )


def announce_noise(
    noise: Noise, encoding: Encoding, roster: Roster, protocol: Protocol, *, coordinates: int, rounds: int
) -> None:
    """Log how large the noise is and which epsilon it buys; raise `ConfigError` if it does not fit."""
    cost = noise_cost(
        noise,
        encoding,
        coordinates=coordinates,
        members=roster.fewest,
        carriers=protocol.carriers_for(roster.fewest),
        shards=roster.shards,
        rounds=max(rounds, 1),
        colluders=protocol.colluders,
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


def warn_of_leaks(roster: Roster, protocol: Protocol, *, rounds: int) -> None:
    """Log what the planned rounds would reveal about single clients, as a warning if they expose one."""
    found = forecast_leak(
        clients=len(roster.clients),
        shards=roster.shards,
        schedule=roster.schedule,
        rounds=rounds,
        mode=protocol.mode_for(roster.fewest),
    )
    finding = text.leak(found.record(), rounds=rounds, clients=found.clients)
    if found.leaks:
        _log.warning("f2ed: %s Sign the roster without --every to keep the shards.", finding)
    else:
        _log.info("f2ed: %s", finding)
