"""How a signing makes groups: for those who came, and for those whose group ended because somebody left.

Groups that are whole stay. The others' members and the newcomers wait until one of these passes the rules, in this
order: groups of all who wait, new groups for everyone, groups of those who never were in one.
"""

from typing import Literal, NamedTuple

import msgspec

from f2ed.core.errors import ConfigError, Refusal
from f2ed.deployment.roster.draw import drawn
from f2ed.deployment.roster.groups import check_leak, check_pool, newcomers, sift
from f2ed.deployment.roster.roster import Roster
from f2ed.protocol.secagg import scheme_of
from f2ed.protocol.sharding import Batches, ClientId, Fixed

__all__ = ["DEFAULT_SIZE", "Option", "Regroup", "default_size", "grouped", "options"]

Regroup = Literal["auto", "pool", "all", "new", "none"]
"""Who is put into new groups: all who wait, everyone, those who never were in one, or nobody; auto searches."""
DEFAULT_SIZE = 4
"""Members of a group that is not a whole shard."""
_WORDS = {
    "pool": "groups of all who wait",
    "all": "new groups for everyone",
    "new": "groups of those who never were in one",
}


class Option(NamedTuple):
    """A way to make groups: the roster that it gives, or why the rules forbid it."""

    name: str
    roster: Roster | None
    why: str

    def __str__(self) -> str:
        """Return a line for the authority."""
        return f"{_WORDS[self.name]}: {self.why}"


def default_size(outline: Roster) -> int:
    """Return the size of new groups: a whole shard, or a part of it where dropouts are tolerated or groups move."""
    whole = len(outline.clients) // max(1, outline.shards)
    if isinstance(outline.schedule, Batches):
        return outline.schedule.size
    if not isinstance(outline.schedule, Fixed):
        return 1
    if not scheme_of(outline.mode).tolerates_dropouts:
        return whole
    if "test" in outline.accepted:
        return 1
    return min(whole, max(DEFAULT_SIZE, outline.grouping.hidden + outline.colluders))


def grouped(outline: Roster, secret: bytes, regroup: Regroup = "auto") -> Roster:
    """Return the roster with its groups as the rules allow them; refuse if none are left.

    `secret` is the last link of the authority's chain; a signing that makes no group reveals nothing of it.
    """
    base = _without_ended(outline)
    alike = base.grouping.size != 1 or all(len(group.members) == 1 for group in base.groups)
    if regroup == "none" or (regroup == "auto" and alike and not base.waiting):
        found: list[Option] = []
    else:
        found = options(outline, secret)
        wanted = regroup if regroup != "auto" else None if alike else "all"
        found = [option for option in found if wanted in (None, option.name) or len(found) == 1]
    for option in found:
        if option.roster is not None:
            return option.roster
    if not base.groups or regroup not in ("auto", "none") or not alike:
        raise ConfigError("; ".join(str(option) for option in found) or "nobody is left to be grouped")
    return base


def options(outline: Roster, secret: bytes) -> list[Option]:
    """Return every way to make groups, in the order in which they are tried."""
    base = _without_ended(outline)
    if not outline.groups and not outline.history:
        return [_tried("all", base, base.waiting, secret)]
    again = msgspec.structs.replace(base, groups=(), history=(*base.history, *base.groups))
    return [
        _tried("pool", base, base.waiting, secret),
        _tried("all", again, tuple(sorted(base.keys)), secret),
        _tried("new", base, newcomers(base), secret),
    ]


def _without_ended(outline: Roster) -> Roster:
    kept, ended = sift(outline)
    return msgspec.structs.replace(outline, groups=kept, history=(*outline.history, *ended))


def _tried(name: str, base: Roster, clients: tuple[ClientId, ...], secret: bytes) -> Option:
    size = base.grouping.size
    if len(clients) < size or not clients:
        return Option(name, None, f"{len(clients)} clients, too few for a group of {size}")
    # A first draw of whole shards makes as many groups as shards, whose sizes differ by one at most.
    whole = len(clients) // size != base.shards and len(clients) // max(1, base.shards) == size and not base.groups
    made = drawn(base, clients, count=base.shards if whole else len(clients) // size, secret=secret)
    fresh = tuple(group for group in made.groups if group not in base.groups)
    try:
        check_pool(made, fresh)
        check_leak(made)
    except Refusal as error:
        return Option(name, None, str(error))
    return Option(name, made, f"{len(fresh)} new groups of {size} or more")
