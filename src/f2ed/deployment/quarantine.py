"""Clients that are left out for a while, since they failed repeatedly: visible, and with a way back.

A client in quarantine is not asked, and drops out like one that is not connected: who is in which shard does not
change. Silence, garbage and refusals are faults. Three of them lead to quarantine; four good rounds make up for one.
The first time lasts 2 rounds, and each further one twice as long, up to a cap.
"""

from collections.abc import Iterable, Mapping
from logging import getLogger
from typing import final

import msgspec

from f2ed.protocol.sharding import ClientId

__all__ = ["Quarantine"]

_log = getLogger("f2ed.deployment")

_FAULT, _LIMIT = 4, 12
"""A fault counts four, a good round takes one off, and twelve are too many."""
_PAROLES = 3
"""How often reconnecting shortens a quarantine before the client has proved itself."""


class _Standing(msgspec.Struct):
    """What is known about one client."""

    score: int = 0
    faults: int = 0
    """Over the whole run."""
    level: int = 0
    """How often it was in quarantine, until it proved itself."""
    until: int = 0
    """The round that asks it again."""
    paroles: int = 0
    reason: str = ""


@final
class Quarantine:
    """Counts the faults of clients, and says who is left out. Rounds are counted here, skipped ones too."""

    def __init__(self, names: Mapping[ClientId, str], *, longest: int = 32) -> None:
        self._names = names
        self._longest = max(1, longest)
        self._round = 0
        self._clients: dict[ClientId, _Standing] = {}

    def left_out(self) -> dict[ClientId, str]:
        """Return who is not asked in the next round, with the reason, the number of faults and the way back."""
        return {
            client: f"in quarantine for {_rounds(each.until - self._round)} after {each.faults} faults, the last: "
            f"{each.reason}"
            for client, each in sorted(self._clients.items())
            if each.until > self._round
        }

    def after_round(self, faults: Mapping[ClientId, str], good: Iterable[ClientId]) -> list[ClientId]:
        """Count a round; return who is in quarantine from now on."""
        self._round += 1
        good = list(good)
        for client in good:
            if standing := self._clients.get(client):
                standing.score = max(0, standing.score - 1)
                if not standing.score:
                    standing.level = standing.paroles = 0
        if len(faults) > max(1, len(good)):
            _log.warning(
                "f2ed: %s of %s clients failed in one round: an outage, so nobody's faults are counted",
                len(faults),
                len(faults) + len(good),
            )
            return []
        return [client for client, reason in sorted(faults.items()) if self._fault(client, reason)]

    def reconnected(self, client: ClientId) -> None:
        """Let a client that was repaired come back sooner; a few times, until it has proved itself."""
        standing = self._clients.get(client)
        if standing is None or standing.until <= self._round or standing.paroles >= _PAROLES:
            return
        standing.paroles += 1
        standing.until = self._round
        _log.info("f2ed: client %s (%s) reconnected: its quarantine ends early", client, self._name(client))

    def release(self) -> None:
        """Let everyone back, since without them no round is possible."""
        for client in self.left_out():
            self._clients[client].until = self._round
            _log.warning(
                "f2ed: client %s (%s) leaves quarantine early: without it too few shards can open",
                client,
                self._name(client),
            )

    def _fault(self, client: ClientId, reason: str) -> bool:
        standing = self._clients.setdefault(client, _Standing())
        standing.faults += 1
        standing.reason = reason
        standing.score += _FAULT
        if standing.score < _LIMIT:
            return False
        standing.level += 1
        length = min(2**standing.level, self._longest)
        standing.until = self._round + length
        standing.score = _LIMIT - _FAULT  # Back on trial: the next fault is one too many.
        _log.warning(
            "f2ed: client %s (%s) is in quarantine for %s after %s faults, the last: %s; it comes back then, or when "
            "its node reconnects",
            client,
            self._name(client),
            _rounds(length),
            standing.faults,
            reason,
        )
        return True

    def _name(self, client: ClientId) -> str:
        return self._names.get(client, "no name")


def _rounds(number: int) -> str:
    return f"{number} round" + ("" if number == 1 else "s")
