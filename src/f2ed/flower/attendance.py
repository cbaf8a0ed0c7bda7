"""Who takes part in the next round: the server waits until enough are there, helpers among them, and says for whom.

Waiting uses up no round. Clients in quarantine are left out, unless too few would be there without them.
"""

import time
from collections.abc import Collection, Mapping
from logging import getLogger
from typing import NamedTuple

from f2ed.core.errors import OutageError
from f2ed.deployment.quarantine import Quarantine
from f2ed.deployment.quorum import quorum_of
from f2ed.deployment.roster import HelperRole
from f2ed.deployment.run_lock import Note
from f2ed.deployment.settings import ServerSettings
from f2ed.flower.node_registry import NodeRegistry
from f2ed.protocol.sharding import ClientId

__all__ = ["Attendance", "Muster", "Waits"]

_log = getLogger("f2ed.flower")

_POLL = 0.5
_SAY_EVERY = 10.0
_NAMED = 8
_HINT = (
    ". If the nodes are running, an expired certificate, a wrong clock or a firewall keeps all of them out: run f2ed "
    "doctor on both sides"
)


class Waits(NamedTuple):
    """How long the server waits for clients, in seconds."""

    everyone: float
    """At the start, for all of them."""
    enough: float
    """At any time, for as many as a round needs; then the run fails."""


class Attendance(NamedTuple):
    """Who takes part in a round."""

    number: int
    """The number of the round in the protocol."""
    nodes: dict[ClientId, int]
    absent: dict[ClientId, str]
    """The other clients, and why."""
    helpers: Mapping[HelperRole, int] = {}
    """The nodes of mixer and judge."""


class Muster:
    """Waits before each round until enough clients are there."""

    def __init__(self, registry: NodeRegistry, quarantine: Quarantine, settings: ServerSettings, waits: Waits) -> None:
        self._registry = registry
        self._quarantine = quarantine
        self._settings = settings
        self._waits = waits
        self._begun = False

    def __call__(self, following: int, *, finished: int, note: Note) -> Attendance:
        """Return who takes part, once enough do; raise `OutageError` if that takes too long.

        `note` is told every 10 s what is waited for, as the log is.
        """
        since = said = time.monotonic()

        def say(there: dict[ClientId, int]) -> None:
            nonlocal said
            if (now := time.monotonic()) - said >= _SAY_EVERY:
                said, missing = now, self._missing(self._number(following), there)
                _log.warning("f2ed: waiting for %.0f s: %s", now - since, missing)
                note(finished + 1, missing)

        while True:
            there = self._registry.present(say)
            for client in self._registry.reconnected():
                self._quarantine.reconnected(client)
            number = self._number(following)
            found = self._attendance(number, there)
            now = time.monotonic()
            if found is not None and self._may_begin(there, now - since):
                if said > since:
                    note(finished + 1)
                return found
            if found is None and now - since >= self._waits.enough:
                raise OutageError(
                    f"too few clients for {now - since:.0f} s: {self._missing(number, there)}. Start the nodes, then "
                    f"run again; with a checkpoint the run continues after round {finished}"
                )
            say(there)
            time.sleep(_POLL)

    def _number(self, following: int) -> int:
        """Return the round's number. Later rounds that clients claim count only at the start."""
        if self._begun:
            return following
        return self._registry.next_round(following, malicious=self._settings.malicious)

    def _may_begin(self, there: Collection[ClientId], waited: float) -> bool:
        """Say whether to begin with those who are there; only at the start everyone is waited for."""
        wanted = len(self._settings.roster.clients) + (2 if self._settings.helped else 0)
        if self._begun:
            return True
        # As many nodes as clients are connected, and those that have not said who they are had their time.
        self._begun = self._registry.connected >= wanted or waited >= self._waits.everyone
        if self._begun and len(there) < (wanted := len(self._settings.roster.clients)):
            _log.warning("f2ed: %s of %s clients are connected; the others may come later", len(there), wanted)
        return self._begun

    def _attendance(self, number: int, there: dict[ClientId, int]) -> Attendance | None:
        """Return who takes part, or None if too few are there."""
        out = self._quarantine.left_out()
        if self._settings.roster.round_shards < self._settings.roster.shards:
            assignment = self._settings.roster.assignment(number)
            drawn = {client for members in assignment.shards for client in members}
            there = {client: node for client, node in there.items() if client in drawn}
        asked = {client: node for client, node in there.items() if client not in out}
        if self._registry.absent_helpers():
            return None
        if not quorum_of(self._settings, number, asked.keys()).enough:
            if not quorum_of(self._settings, number, there.keys()).enough:
                return None
            self._quarantine.release()
            asked, out = there, {}
        return Attendance(number, asked, self._registry.absent() | out, self._registry.helpers_there())

    def _missing(self, number: int, there: Mapping[ClientId, int]) -> str:
        names, absent = self._settings.names, self._registry.absent()
        found = [f"{helper}: {why}" for helper, why in self._registry.absent_helpers().items()]
        found += [f"client {client} ({names[client]}): {why}" for client, why in list(absent.items())[:_NAMED]]
        more = f" and {len(absent) - _NAMED} more" if len(absent) > _NAMED else ""
        more += "" if self._registry.connected else _HINT
        return f"{quorum_of(self._settings, number, there.keys()).text}; absent: {'; '.join(found)}{more}"
