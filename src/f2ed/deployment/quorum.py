"""Whether enough clients are there for a round: enough shards could open, or enough clients could be in one sum."""

from collections.abc import Set as AbstractSet
from typing import NamedTuple

from f2ed.deployment.roster import helped_terms
from f2ed.deployment.settings import ServerSettings
from f2ed.protocol.helpers.guard import fit
from f2ed.protocol.sharding import ClientId

__all__ = ["Quorum", "quorum_of"]


class Quorum(NamedTuple):
    """What a round could open with those who are there."""

    found: int
    needed: int
    text: str
    """For people, with both numbers."""

    @property
    def enough(self) -> bool:
        """Whether the round may begin."""
        return self.found >= self.needed


def quorum_of(settings: ServerSettings, number: int, there: AbstractSet[ClientId]) -> Quorum:
    """Return what the round of this number could open with these clients."""
    if settings.helped:
        # Strikes do not count: a round that is skipped for them brings the end of the epoch nearer.
        terms = helped_terms(settings.roster, settings.roster.job(0), number, coordinates=1)
        found = len(fit(terms, None, dict.fromkeys(there & set(terms.members), 1.0)))
        kind = "clients are there in whole groups" if terms.groups else "clients are there"
        return Quorum(found, terms.crowd, f"{found} of {len(terms.members)} {kind}, {terms.crowd} are needed")
    shards = settings.roster.assignment(number).shards
    found = sum(sum(client in there for client in each) >= settings.min_crowd_of(len(each)) for each in shards)
    text = f"{found} of {len(shards)} shards can open, {settings.min_shards} are needed"
    return Quorum(found, settings.min_shards, text)
