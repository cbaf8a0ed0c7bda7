"""Which nodes carry messages to the helpers of a roster: those whose helper signed the server's question."""

from collections.abc import Collection, Mapping
from logging import INFO, getLogger
from typing import final

from f2ed.core.errors import PeerError
from f2ed.deployment.hello import HelperHello, helper_hello_text
from f2ed.deployment.roster import HelperRole, Roster
from f2ed.protocol.primitives.crypto import verify

__all__ = ["HelperNodes"]

_log = getLogger("f2ed.flower")


@final
class HelperNodes:
    """Remembers where mixer and judge are. Without helpers on the roster there are none."""

    def __init__(self, roster: Roster, job: str) -> None:
        self._roster, self._job = roster, job
        self._parties = {each.role: each for each in roster.helpers.parties} if roster.helpers else {}
        self._nodes: dict[HelperRole, int] = {}
        self._silent: dict[HelperRole, str] = {}

    def hear(self, node: int, hello: HelperHello, nonce: bytes) -> None:
        """Take in the answer of a node, or raise `PeerError` if no helper of the roster signed it."""
        party = self._parties.get(hello.role)
        if party is None:
            raise PeerError(f"the {hello.role} is behind it, and the roster names no helpers")
        if hello.roster != self._roster.digest:
            raise PeerError(f"its {hello.role} holds another roster than this server; give both the same file")
        verify(party.key, helper_hello_text(self._job, node, hello.role, hello.roster, nonce), hello.signature)
        self._nodes[hello.role] = node
        self._silent.pop(hello.role, None)
        _log.log(INFO, "f2ed: node %s carries messages to the %s (%s)", node, hello.role, party.operator)

    def there(self, connected: Collection[int]) -> dict[HelperRole, int]:
        """Return the nodes of the helpers, as far as they are known and connected."""
        return {role: node for role, node in self._nodes.items() if node in connected}

    def absent(self, connected: Collection[int], refused: Mapping[int, str]) -> dict[HelperRole, str]:
        """Return why a helper is missing; `refused` is what nodes said that are no clients."""
        said = [why for node, why in refused.items() if node in connected]
        hint = f"; or it is behind one of {len(said)} connected nodes that refused: {said[0]}" if said else ""
        gone = [role for role in self._parties if role not in self.there(connected)]
        return {role: self._silent.get(role, "not connected") + hint for role in gone}

    def forget(self, role: HelperRole, why: str) -> None:
        """Ask for a helper anew before it is used again: it did not answer."""
        if self._nodes.pop(role, None) is not None:
            self._silent[role] = f"silent since: {why}"

    def name(self, role: HelperRole) -> str:
        """Return a helper's name for people."""
        return f"the {role} ({self._parties[role].operator})"

    def __contains__(self, node: int) -> bool:
        """Return whether a node is known to be a helper's."""
        return node in self._nodes.values()
