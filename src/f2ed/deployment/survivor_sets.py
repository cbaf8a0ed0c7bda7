"""The sets of survivors that a node confirmed, over all runs of a federation: the difference of two sums leaks.

Sums over whole groups differ by whole groups, so that their number needs no bound where groups are large enough. Where
the roster accepts `differences`, two sums may differ by one client, or by a group with too few honest members; the
number of different sets is then limited, and a new run does not reset it.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import final

import msgspec

from f2ed.core.errors import Refusal
from f2ed.core.files import StoredValue
from f2ed.protocol.primitives.crypto import digest
from f2ed.protocol.primitives.fields import unsigned
from f2ed.protocol.secagg import Terms
from f2ed.protocol.sharding import ClientId

__all__ = ["SURVIVOR_SETS", "SurvivorSets"]

SURVIVOR_SETS = 100
"""In how many different sets of survivors of one shard a node may be opened, where groups are too small."""


@final
class _Sets(msgspec.Struct, frozen=True):
    sets: dict[str, tuple[str, ...]] = {}
    """By digest of a shard's members: the digests of the sets."""


@final
class SurvivorSets(msgspec.Struct, frozen=True):
    """The file that records them."""

    path: Path
    least: int = 2
    """How many members a group needs for its sum to hide one of them."""
    most: int = SURVIVOR_SETS

    def count(self, members: Sequence[ClientId]) -> int:
        """Return how many different sets of these members were confirmed."""
        return len((self._stored.read() or _Sets()).sets.get(_name(members), ()))

    def confirm(self, terms: Terms, alive: Sequence[ClientId]) -> None:
        """Record a set of survivors before the confirmation leaves, or refuse it."""
        shard, chosen = _name(terms.members), _name(alive)
        with self._stored.hold() as held:
            sets = (held.before or _Sets()).sets
            before = sets.get(shard, ())
            if chosen in before:
                return
            if min(map(len, terms.groups), default=1) < self.least and len(before) >= self.most:
                raise Refusal(
                    f"this node confirmed {len(before)} different sets of survivors of this shard in all runs, as many "
                    "as it allows; their differences leak more each time. A roster with groups of "
                    f"{self.least} or more needs no such limit"
                )
            held.write(_Sets({**sets, shard: (*before, chosen)}))

    @property
    def _stored(self) -> StoredValue[_Sets]:
        return StoredValue(
            self.path,
            _Sets,
            "the sets of survivors",
            repair="restore it; without it this node cannot tell what was opened before",
            remedy="name another folder with f2ed-state in the node config",
        )


def _name(clients: Sequence[ClientId]) -> str:
    return digest(*map(unsigned, clients)).hex()[:32]
