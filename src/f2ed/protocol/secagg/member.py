"""What a client knows by itself, and the terms it will take part under."""

from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple, final

import msgspec

from f2ed.core.errors import ConfigError, Refusal
from f2ed.protocol.primitives.ring import Ring, Words
from f2ed.protocol.secagg.masks import Mask, add_masks
from f2ed.protocol.secagg.messages import TAG_BYTES, Upload
from f2ed.protocol.secagg.state import State
from f2ed.protocol.secagg.terms import Terms, check
from f2ed.protocol.sharding import ClientId

__all__ = ["Contribution", "Local", "Member", "accept", "begin", "masked_upload"]

Contribution = Callable[[Terms], Words]
"""Gives the encoded update for the terms; called once, at the step that uploads it. The words are masked in place."""


@final
class Member(msgspec.Struct, frozen=True, kw_only=True):
    """What a client knows by itself and never takes from the server."""

    id: ClientId
    signing_key: bytes
    """The private Ed25519 key, 32 bytes, whose public half is on the roster."""
    roster: Mapping[ClientId, bytes]
    """Everyone's public Ed25519 key, from a source that the server does not control."""
    job: str
    shard: Callable[[int], Collection[ClientId]] | None = None
    """The members of this client's shard by round, recomputed from the plan; None trusts the server's deal."""
    colluders: int = 0
    """The fewest colluding members that the terms must allow for."""
    min_crowd: int = 3
    """The fewest members among whose updates this client will have its own opened."""
    subsets: int = 100
    """In how many different sets of survivors of one shard it may be opened: each difference of two sums tells more."""
    noise: float = 0.0
    """The least noise in a sum with this client's update that the terms must state, as a multiple of its clip."""
    clear: bool = False
    """Whether to upload in the clear when asked to, as simulations do; there is no secrecy then."""

    def __repr__(self) -> str:
        """Show everything but the private key."""
        return f"Member(id={self.id}, job={self.job!r}, {len(self.roster)} on the roster, signing_key=<secret>)"


class Local(NamedTuple):
    """What the driver brings to one step."""

    model: bytes
    contribution: Contribution
    entropy: bytes
    threads: int = 2

    def __repr__(self) -> str:
        """Show no secret."""
        return f"Local(model={self.model.hex()}, entropy=<secret>)"


def accept(member: Member, terms: Terms) -> None:
    """Refuse terms that this client did not agree to, or that could single it out."""
    try:
        check(terms)
    except ConfigError as error:
        raise Refusal(f"the terms cannot be accepted: {error}") from None
    if terms.job != member.job:
        raise Refusal(f"an invitation to job {terms.job!r}; this client takes part in {member.job!r}")
    if member.id not in terms.members:
        raise Refusal(f"client {member.id} is not among the members of shard {terms.shard}")
    if strangers := [client for client in terms.members if client not in member.roster]:
        raise Refusal(f"client {strangers[0]} is not on the roster: nobody vouches for its key")
    if member.shard is not None and tuple(sorted(member.shard(terms.round))) != terms.members:
        raise Refusal("the members are not those that the roster, the round and the seed give this client's shard")
    if terms.noise < member.noise:
        raise Refusal(f"the terms state noise of {terms.noise:g} times the clip; this client asks for {member.noise:g}")
    if terms.mode == "clear":
        if not member.clear:
            raise Refusal("an upload in the clear was asked for; this client only takes part in secret sums")
        return
    if terms.colluders < member.colluders:
        raise Refusal(f"the terms allow for {terms.colluders} colluders; this client asks for {member.colluders}")
    if terms.min_crowd < member.min_crowd:
        raise Refusal(f"sums of {terms.min_crowd} may be opened; this client hides among {member.min_crowd} or more")


def begin(state: State, terms: Terms) -> State:
    """Raise the high-water mark to this round, or refuse a round that was begun before: its masks would repeat."""
    now = (terms.epoch, terms.round)
    if state.mark >= now:
        raise Refusal(
            f"epoch {terms.epoch}, round {terms.round} is not after epoch {state.mark[0]}, round {state.mark[1]}, "
            "which was begun already; a round is never begun twice"
        )
    return msgspec.structs.replace(state, mark=now, phase=None)


def masked_upload(terms: Terms, context: bytes, masks: list[Mask], local: Local) -> Upload:
    """Mask this client's update in place."""
    ring = Ring(terms.ring)
    words = local.contribution(terms)
    ring.check(words, terms.length)
    add_masks(words, masks, threads=local.threads)
    return Upload(context[:TAG_BYTES], ring.pack(words))
