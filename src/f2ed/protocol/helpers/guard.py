"""The survivor guard: which sets of clients may be summed, given those that were summed before.

Two sums that differ by one client give that client. A single lying party can influence who survives a round, so the
server, the mixer and the judge each apply the guard to their own memory. With fixed groups every sum takes whole
groups, and no difference of sums, over any number of rounds, reaches below a group. With nested sets the survivors of
an epoch stay the same or shrink by at least `step`.
"""

from collections.abc import Collection, Mapping, Sequence
from itertools import pairwise

from f2ed.core.errors import Refusal
from f2ed.protocol.helpers.terms import Terms
from f2ed.protocol.sharding import ClientId

__all__ = ["admit", "check_struck", "fit"]


def admit(
    terms: Terms, clients: Collection[ClientId], before: Sequence[ClientId] | None, kept: Sequence[ClientId]
) -> None:
    """Refuse to sum `kept`, of these clients, unless it is a large enough crowd that the guard allows.

    `before` are the last survivors of the epoch, None if there were none.
    """
    if any(one >= other for one, other in pairwise(kept)):
        raise Refusal("a list of survivors that names one twice or out of order")
    if strangers := set(kept) - set(clients):
        raise Refusal(f"client {min(strangers)} is to be summed, but is not in the set of this round")
    if len(kept) < terms.crowd:
        raise Refusal(f"a sum of {len(kept)} clients; the policy demands a crowd of {terms.crowd}")
    there = set(kept)
    for group in terms.groups:
        if there & set(group) and not there.issuperset(group):
            missing = min(set(group) - there)
            raise Refusal(f"a sum that tears the group of client {missing}; it takes all of a group or none")
    if terms.groups or before is None:
        return
    if more := there - set(before):
        raise Refusal(f"client {min(more)} is to be summed again in an epoch in which it was left out")
    if 0 < (fewer := len(before) - len(kept)) < terms.step:
        raise Refusal(f"survivors that shrink by {fewer}; within an epoch they shrink by at least {terms.step}")


def check_struck(among: Collection[ClientId], struck: Sequence[ClientId]) -> None:
    """Refuse strikes that name a client twice, out of order, or not among those that can have earned one."""
    if any(one >= other for one, other in pairwise(struck)):
        raise Refusal("a list of strikes that names a client twice or out of order")
    if others := set(struck) - set(among):
        raise Refusal(f"a strike for client {min(others)}, which cannot have earned one")


def fit(terms: Terms, before: Sequence[ClientId] | None, wanted: Mapping[ClientId, float]) -> tuple[ClientId, ...]:
    """Return the largest set of the wanted clients that the guard allows; the lightest go first.

    It may be smaller than the crowd, and is then refused.
    """
    there = set(wanted)
    if terms.groups:
        return tuple(sorted(client for group in terms.groups if there.issuperset(group) for client in group))
    if before is None:
        return tuple(sorted(there))
    there &= set(before)
    lacking = terms.step - (len(before) - len(there))
    if 0 < lacking < terms.step:
        lightest = sorted(there, key=lambda client: (wanted[client], client))
        there -= set(lightest[:lacking])
    return tuple(sorted(there))
