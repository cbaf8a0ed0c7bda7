"""What noise has cost each client of a deployment: over rounds, and over restarts of the server."""

from collections.abc import Mapping
from logging import INFO, getLogger

from f2ed.deployment.roster import Roster
from f2ed.protocol.aggregation import Audit, Protocol, price
from f2ed.protocol.dp.accountant import epsilon
from f2ed.protocol.dp.noise import Noise
from f2ed.protocol.quantization.encoding import Encoding
from f2ed.protocol.sharding import ClientId

__all__ = ["Ledger", "announce"]

_log = getLogger("f2ed.flower")


class Ledger:
    """Adds up what was opened. A round that a crash of the server cut off before its checkpoint is not in it."""

    def __init__(self, noise: Noise | None, spent: Mapping[ClientId, float]) -> None:
        self._noise = noise
        self.spent = dict(spent)
        """The zCDP rho that each client has lost."""

    def __call__(self, audit: Audit) -> dict[ClientId, float] | None:
        """Take in a round, and return each client's epsilon after it; None without noise."""
        if self._noise is None:
            return None
        for client, loss in audit.losses.items():
            self.spent[client] = self.spent.get(client, 0.0) + loss
        members = (client for each in audit.shards for client in each.members)
        return {client: epsilon(self.spent.get(client, 0.0), self._noise.delta) for client in sorted(members)}


def announce(
    noise: Noise, encoding: Encoding, roster: Roster, protocol: Protocol, *, coordinates: int, rounds: int
) -> None:
    """Say what the noise is and what it promises; raise `ConfigError` if it does not fit."""
    cost = price(
        noise,
        encoding,
        coordinates=coordinates,
        members=roster.fewest,
        shards=roster.shards,
        rounds=max(rounds, 1),
        protocol=protocol,
    )
    _log.log(
        INFO,
        "f2ed: every shard mean carries noise of %.3g in each coordinate, %.3g in all where an update has at most %g; "
        "after %s rounds a client's epsilon is at most %.3g at delta %g",
        cost.shard,
        cost.shard_norm,
        cost.clip_norm,
        cost.rounds,
        cost.epsilon,
        cost.delta,
    )
