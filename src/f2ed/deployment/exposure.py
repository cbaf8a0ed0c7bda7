"""What a node knows about its own exposure: every group that ever was, in all federations that its key was in.

The leak rule of a roster counts the groups of that roster. A new federation of the same people would begin with an
empty history. So each node keeps the groups itself, by the members' public keys, and checks its own share over all.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import final

import msgspec

from f2ed.core.errors import Refusal
from f2ed.core.files import StoredValue
from f2ed.deployment.roster import Roster, check_groups, leak_bound
from f2ed.guarantees import leverages

__all__ = ["Exposure"]

_TOLERANCE = 1e-6
_Member = tuple[str, int]
"""A public key in hexadecimal, and a weight."""


@final
class _Followed(msgspec.Struct, frozen=True):
    digest: str


@final
class _Known(msgspec.Struct, frozen=True):
    groups: tuple[tuple[_Member, ...], ...] = ()


@final
class Exposure(msgspec.Struct, frozen=True):
    """The files in a node's state folder that record which groups it has been exposed to."""

    folder: Path

    def follow(self, roster: Roster, key: bytes) -> None:
        """Check a roster's groups, and this node's own exposure with them, before it is followed for the first time."""
        followed, wanted = self._followed(roster.lineage), _Followed(roster.digest.hex())
        if followed.read() == wanted:
            return
        check_groups(roster)
        with self._known.hold() as held:
            before = held.before or _Known()
            groups = tuple(dict.fromkeys((*before.groups, *_groups(roster))))
            _check(roster, groups, key.hex())
            held.write(_Known(groups))
        with followed.hold() as mark:
            mark.write(wanted)

    @property
    def _known(self) -> StoredValue[_Known]:
        return StoredValue(
            self.folder / "exposure",
            _Known,
            "the groups that this node was in",
            repair="restore it; without it this node does not know what was revealed",
            remedy="name another folder with f2ed-state in the node config",
        )

    def _followed(self, lineage: str) -> StoredValue[_Followed]:
        return StoredValue(
            self.folder / f"{lineage}.groups",
            _Followed,
            "the roster that this node checked",
            repair="remove it, and the groups are checked again",
            remedy="name another folder with f2ed-state in the node config",
        )


def _groups(roster: Roster) -> list[tuple[_Member, ...]]:
    """Return all groups that ever were, by keys in ascending order."""
    keys = {left.id: left.key.hex() for left in roster.gone} | {entry.id: entry.key.hex() for entry in roster.clients}
    return [
        tuple(sorted((keys[client], weight) for client, weight in zip(group.members, group.weights, strict=True)))
        for group in (*roster.history, *roster.groups)
    ]


def _check(roster: Roster, groups: Sequence[tuple[_Member, ...]], mine: str) -> None:
    """Refuse a roster whose groups, with those of all other federations, say too much about this node."""
    if {"leak", "test"} & set(roster.accepted):
        return
    place = {key: number for number, key in enumerate(sorted({key for group in groups for key, _ in group}))}
    rows = [{place[key]: weight for key, weight in group} for group in groups]
    share = leverages(rows).get(place[mine], 0.0) if mine in place else 0.0
    if share > leak_bound(roster) + _TOLERANCE:
        raise Refusal(
            f"the sums over all groups that this node's key was ever in, in any federation, determine {share:.2f} of "
            f"its update, and at most {leak_bound(roster):.2f} is allowed; keep to the groups of before, or let the "
            "authority accept the risk: --accept leak"
        )
