"""The rules for groups, which every node checks again: who is opened together stays together, and nobody is alone.

A group's members and weights never change. One that leaves closes its group, which goes to the history. All that the
server can ever compute, in any number of rounds, runs and serials, is a combination of the sums over groups that ever
were. So what it learns about one client follows from the roster alone.
"""

from collections.abc import Iterable

import msgspec

from f2ed.core.errors import PeerError, Refusal
from f2ed.deployment.roster.draw import check_draw
from f2ed.deployment.roster.parts import Group
from f2ed.deployment.roster.roster import Roster
from f2ed.guarantees import determined, leverages, outnumbered, worst_leverages
from f2ed.guarantees.leakage.leverage import Row
from f2ed.protocol.secagg import scheme_of
from f2ed.protocol.sharding import ClientId, check_link

__all__ = ["check_groups", "check_leak", "check_pool", "check_step", "leak_bound", "leak_of", "newcomers", "sift"]

_TOLERANCE = 1e-6


def rows(groups: Iterable[Group]) -> list[Row]:
    """Return the groups as the rows of a system of equations."""
    return [dict(zip(group.members, group.weights, strict=True)) for group in groups]


def leak_of(roster: Roster) -> dict[ClientId, float]:
    """Return the leverage of everyone who was ever in a group, former members among them."""
    return leverages(rows((*roster.groups, *roster.history)))


def leak_bound(roster: Roster) -> float:
    """Return the largest leverage that the roster allows without accepting the risk `leak`."""
    return 1 / (roster.grouping.hidden + roster.colluders)


def sift(roster: Roster) -> tuple[tuple[Group, ...], tuple[Group, ...]]:
    """Part the groups into those whose members are all there, with their weights, and those that have to end."""
    weights = {entry.id: entry.weight for entry in roster.clients}
    whole = [
        all(weights.get(client) == weight for client, weight in zip(group.members, group.weights, strict=True))
        for group in roster.groups
    ]
    both = list(zip(roster.groups, whole, strict=True))
    return tuple(group for group, kept in both if kept), tuple(group for group, kept in both if not kept)


def newcomers(roster: Roster) -> tuple[ClientId, ...]:
    """Return the clients that were never in a group."""
    ever = {client for group in (*roster.groups, *roster.history) for client in group.members}
    return tuple(sorted(roster.keys.keys() - ever))


def check_groups(roster: Roster) -> None:
    """Refuse a roster whose groups, by themselves, break a rule."""
    _check_shape(roster)
    least = roster.grouping.hidden + roster.colluders
    smallest = min(len(group.members) for group in roster.groups)
    if scheme_of(roster.mode).tolerates_dropouts and smallest < least and not _accepts(roster, "differences"):
        raise Refusal(
            f"a group of {smallest} where dropouts are tolerated: the difference of two sums is such a group, and "
            f"{least} members are needed; make larger groups, or accept the risk: --accept differences"
        )
    check_leak(roster)
    check_draw(roster)


def check_leak(roster: Roster) -> None:
    """Refuse groups whose sums, with those of all former groups, say too much about one client, former ones too."""
    if _accepts(roster, "leak"):
        return
    every = rows((*roster.groups, *roster.history))
    found, most = leverages(every), leak_bound(roster)
    worst = max(found, key=lambda client: found[client])
    if any(len(group.members) == 1 for group in roster.groups):
        raise Refusal(
            "groups of one: clients that are resharded or dropped on their own can be solved for over the rounds; make "
            "larger groups with --group-size, or accept the risk: --accept leak"
        )
    if alone := determined(every):
        raise Refusal(
            f"the sums over all groups that ever were determine the update of {_name(roster, min(alone))} exactly; "
            "leave its former companions waiting, or accept the risk: --accept leak"
        )
    if found[worst] > most + _TOLERANCE:
        raise Refusal(
            f"the sums over all groups that ever were determine {found[worst]:.2f} of the update of "
            f"{_name(roster, worst)}, and at most {most:.2f} is allowed ({roster.grouping.hidden} hidden and "
            f"{roster.colluders} colluders in a group); make larger groups, more equal weights, or accept the risk: "
            "--accept leak"
        )
    _check_colluders(roster, every)


def _check_colluders(roster: Roster, every: list[Row]) -> None:
    """Refuse groups that hide a client only as long as nobody who came, left or was regrouped tells its own update.

    Groups that share no member hide `hidden` others whichever members collude. Where groups were drawn again, the
    difference of all sums before and after is one over those who came and left, and all but one of them may collude.
    """
    rules, number = roster.grouping, roster.colluders
    found = worst_leverages(every, in_row=number, in_all=max(number, rules.malicious))
    worst = max(found, key=lambda client: found[client])
    if found[worst] > 1 / rules.hidden + _TOLERANCE:
        raise Refusal(
            f"{max(number, rules.malicious)} colluders, of whom {number} are in a group, and the sums over all groups "
            f"that ever were determine {found[worst]:.2f} of the update of {_name(roster, worst)}, and at most "
            f"{1 / rules.hidden:.2f} is allowed; wait until more come or leave at once, keep the groups of before, or "
            "accept the risk: --accept leak"
        )


def check_pool(roster: Roster, made: tuple[Group, ...]) -> None:
    """Refuse new groups in which a client is too likely to be outnumbered."""
    if not made or _accepts(roster, "pool"):
        return
    pool, smallest = sum(len(group.members) for group in made), min(len(group.members) for group in made)
    rules = roster.grouping
    if smallest < rules.size:
        raise Refusal(f"a new group of {smallest} members, and the roster makes none below {rules.size}")
    chance = outnumbered(pool=pool, malicious=rules.malicious, size=smallest, hidden=rules.hidden)
    if smallest > 1 and chance > rules.chance:
        raise Refusal(
            f"of {pool} clients in new groups {rules.malicious} may be malicious, and one client is outnumbered with a "
            f"chance of {chance:.2g}, above {rules.chance:g}; wait for more clients, or accept the risk: --accept pool"
        )


def check_step(old: Roster, new: Roster) -> None:
    """Refuse a serial whose groups do not follow from the one before by the rules."""
    _check_shape(new)
    _check_history(old, new)
    check_groups(new)
    made = tuple(group for group in new.groups if group not in old.groups)
    if not made:
        if (old.seed, old.draw) != (new.seed, new.draw):
            raise Refusal("another seed without new groups: nothing was drawn, so the seed stays")
        return
    _check_members(old, new, made)
    if new.draw.head != old.draw.head:
        raise Refusal("another chain than before; the authority keeps the chain that it committed to at first")
    if new.draw.head:
        if new.draw.link != old.draw.link + 1:
            raise Refusal(
                f"link {new.draw.link} of the authority's chain, after link {old.draw.link}; none is skipped or reused"
            )
        try:
            check_link(new.draw.value, new.draw.link, earlier=old.draw.value or old.draw.head, at=old.draw.link)
        except PeerError as error:
            raise Refusal(str(error)) from None
    check_pool(new, made)


def _check_shape(roster: Roster) -> None:
    """Refuse groups that overlap, that hold somebody who left, or that nobody knows."""
    everyone = roster.keys.keys() | {left.id for left in roster.gone}
    every = (*roster.groups, *roster.history)
    if not roster.groups:
        raise Refusal("a roster without groups; the authority signs it again with f2ed roster sign")
    if len({group.index for group in every}) != len(every):
        raise Refusal("two groups with the same index; a group that ended keeps its own")
    for group in every:
        if not group.members or len(group.members) != len(group.weights) or not set(group.members) <= everyone:
            raise Refusal(f"group {group.index} does not consist of clients, one weight for each")
        if list(group.members) != sorted(set(group.members)) or group.since > roster.serial:
            raise Refusal(f"group {group.index} names a client twice or out of order, or a later serial")
    together = [client for group in roster.groups for client in group.members]
    if len(set(together)) != len(together):
        raise Refusal("a client in two groups at once; each client is in one group, or waits")
    if ended := sift(roster)[1]:
        raise Refusal(
            f"a client of group {ended[0].index} left or has another weight, so that the group has ended; its other "
            "members wait for a new one"
        )


def _check_history(old: Roster, new: Roster) -> None:
    """Refuse a group that changed, and one that is forgotten."""
    ended = [group for group in old.groups if group not in new.groups]
    if missing := [group for group in (*old.history, *ended) if group not in new.history]:
        raise Refusal(
            f"group {missing[0].index} of the serial before changed, or is missing from the history: what its sums "
            "revealed stays revealed"
        )
    if len(new.history) != len(old.history) + len(ended):
        raise Refusal("groups in the history that never were")
    stayed = sift(msgspec.structs.replace(new, groups=old.groups))[0]
    if ended and len(ended) < len(old.groups) and (closed := [group for group in ended if group in stayed]):
        raise Refusal(f"group {closed[0].index} ended although nobody left it, and other groups did not")
    last = max((group.index for group in (*old.groups, *old.history)), default=-1)
    for group in new.groups:
        if group not in old.groups and (group.since != new.serial or group.index <= last):
            raise Refusal(f"group {group.index} is new, and its index or serial is an older one")


def _check_members(old: Roster, new: Roster, made: tuple[Group, ...]) -> None:
    """Refuse new groups of anybody but all who are in none, all who never were in one, or everyone."""
    members = tuple(sorted(client for group in made for client in group.members))
    kept = tuple(group for group in old.groups if group in new.groups)
    grouped = {client for group in kept for client in group.members}
    pool = tuple(sorted(new.keys.keys() - grouped))
    ever = {client for group in (*old.groups, *old.history) for client in group.members}
    fresh = tuple(sorted(new.keys.keys() - ever))
    if members not in (pool, fresh):
        raise Refusal("new groups of some clients that wait and not of others; somebody chose whom to group together")


def _accepts(roster: Roster, risk: str) -> bool:
    return bool({risk, "test"} & set(roster.accepted))


def _name(roster: Roster, client: ClientId) -> str:
    names = {left.id: f"{left.name}, who left" for left in roster.gone}
    return (names | {entry.id: entry.name for entry in roster.clients})[client]
