"""The seed that groups are drawn with: from a link of the authority's chain and the closed list.

The chain's head is published before any client has a key, and each draw reveals the next link. So the server and the
clients cannot predict a seed, and the authority cannot try several for one list: another seed takes another list. Ids
are the authority's to give, so neither the seed nor the groups depend on them: a client's place follows from its key.
"""

from collections.abc import Sequence

import msgspec

from f2ed.core.errors import ConfigError, PeerError, Refusal
from f2ed.deployment.roster.parts import Draw, Group
from f2ed.deployment.roster.roster import Roster
from f2ed.protocol.primitives.crypto import digest
from f2ed.protocol.sharding import ClientId, Members, chain_head, chain_link, check_link, draw_groups

__all__ = ["check_draw", "check_head", "drawn", "latest_groups"]


def drawn(outline: Roster, clients: Sequence[ClientId], *, count: int, secret: bytes) -> Roster:
    """Return the roster with new groups of these clients; `secret` is the last link of the authority's chain.

    A roster without a chain begins one, unless it accepts `authority-draw`: then the secret itself is the seed.
    """
    before = outline.draw
    if "authority-draw" in outline.accepted and not before.head:
        draw, seed = before, secret
    else:
        head = chain_head(secret)
        if before.head not in (b"", head):
            raise ConfigError("this is not the secret of the roster's chain; sign with the one it was made with")
        link = before.link + 1
        draw = Draw(head=head, link=link, value=chain_link(secret, link))
        seed = _seed(outline, draw, clients)
    following = max((group.index for group in (*outline.groups, *outline.history)), default=-1) + 1
    weights = {entry.id: entry.weight for entry in outline.clients}
    made = tuple(
        Group(following + place, outline.serial, members, tuple(weights[client] for client in members))
        for place, members in enumerate(_groups(outline, clients, count, seed))
    )
    return msgspec.structs.replace(outline, groups=(*outline.groups, *made), draw=draw, seed=seed)


def latest_groups(roster: Roster) -> tuple[Group, ...]:
    """Return the groups that were drawn last, whether or not they have ended since."""
    groups = sorted((*roster.groups, *roster.history), key=lambda group: group.index)
    last = max((group.since for group in groups), default=0)
    return tuple(group for group in groups if group.since == last)


def check_draw(roster: Roster) -> None:
    """Refuse a seed that does not follow from the chain and the closed list, and groups that do not follow from it."""
    if not roster.draw.head:
        if not {"authority-draw", "test"} & set(roster.accepted):
            raise Refusal(
                "the seed of this roster belongs to no chain, so the authority may have chosen it; a test-bed accepts "
                "that with f2ed roster sign --accept authority-draw"
            )
        return
    made = latest_groups(roster)
    clients = [client for group in made for client in group.members]
    try:
        check_link(roster.draw.value, roster.draw.link, earlier=roster.draw.head, at=0)
    except PeerError as error:
        raise Refusal(str(error)) from None
    if roster.seed != _seed(roster, roster.draw, clients):
        raise Refusal("the seed of this roster does not follow from the authority's chain and the closed list")
    if tuple(group.members for group in made) != _groups(roster, clients, len(made), roster.seed):
        raise Refusal("the newest groups are not those that the seed draws; somebody chose their members")


def check_head(roster: Roster, head: bytes) -> None:
    """Refuse a chain that the site was not told of before it gave its key away; `head` is empty if it was told none."""
    if head and roster.draw.head != head:
        raise Refusal(
            f"the roster {roster.name!r} draws its groups from another chain than the one that came with the "
            "authority's public key; the authority may have chosen it when it knew all keys: ask which of them it is"
        )


def _groups(roster: Roster, clients: Sequence[ClientId], count: int, seed: bytes) -> tuple[Members, ...]:
    """Draw the groups over the places of the clients in the order of their keys."""
    keys = _keys(roster)
    order = sorted(clients, key=lambda client: keys[client])
    places = {place: keys[client] for place, client in enumerate(order)}
    made = draw_groups(places, count=count, seed=b"groups" + seed)
    return tuple(tuple(sorted(order[place] for place in group)) for group in made)


def _seed(roster: Roster, draw: Draw, clients: Sequence[ClientId]) -> bytes:
    """Return the seed of a draw: fixed by the chain and the list of those who are grouped.

    Nothing else: serials may be left out and ids given as one likes, so an authority could try any number for one list.
    """
    keys = _keys(roster)
    closed = digest(b"f2ed closed list 3", *sorted(keys[client] for client in clients))
    return digest(b"f2ed seed 4", roster.lineage.encode(), draw.value, closed)


def _keys(roster: Roster) -> dict[ClientId, bytes]:
    """Return the key of everyone who ever was."""
    return {left.id: left.key for left in roster.gone} | roster.keys
