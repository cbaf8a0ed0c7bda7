"""What a client knows by itself, and what the steps of every scheme share."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple, final

import msgspec

from f2ed.core.errors import Refusal
from f2ed.protocol.primitives.hybrid import Encapsulate, HybridKey, PrivateKeys
from f2ed.protocol.primitives.ring import Ring, Words
from f2ed.protocol.secagg.masks import Mask, add_masks
from f2ed.protocol.secagg.messages import TAG_BYTES, Upload
from f2ed.protocol.secagg.state import ClientState
from f2ed.protocol.secagg.terms import Terms
from f2ed.protocol.sharding import ClientId

__all__ = ["Contribution", "Member", "StepInput", "begin", "masked_upload"]

Contribution = Callable[[Terms], Words]
"""Returns the encoded update for the terms; called once, at the step that uploads it. The words are masked in place."""


@final
class Member(msgspec.Struct, frozen=True, kw_only=True):
    """What a client knows by itself and never takes from the server."""

    id: ClientId
    signing_key: bytes
    """The private Ed25519 key, 32 bytes, whose public half is on the roster."""
    roster: Mapping[ClientId, bytes]
    """Everyone's public Ed25519 key, from a source that the server does not control."""
    job: str
    terms: Callable[[int, int], Terms] | None = None
    """Derives the terms of a round, for a vector of this many words, from what this client trusts; the server's must be
    the same. None, in simulations, follows any terms that are safe."""
    shard: Callable[[int], Collection[ClientId]] | None = None
    """Without `terms`, the members of this client's shard by round; None trusts the server."""
    survivors: Callable[[Terms, Sequence[ClientId]], None] | None = None
    """Records a set of survivors before it is confirmed, or refuses it; None counts nothing."""
    noise: float = 0.0
    """The smallest noise in a sum with this client's update, as a multiple of its clip, whatever the terms say."""
    clear: bool = False
    """Whether to upload in the clear on request, as simulations do; there is no secrecy then."""

    def __repr__(self) -> str:
        """Show everything but the private key."""
        return f"Member(id={self.id}, job={self.job!r}, {len(self.roster)} on the roster, signing_key=<secret>)"


class StepInput(NamedTuple):
    """What the driver brings to one step."""

    model: bytes
    contribution: Contribution
    entropy: bytes
    encapsulate: Encapsulate
    threads: int = 2
    private_keys: PrivateKeys = HybridKey

    def __repr__(self) -> str:
        """Show no secret."""
        return f"StepInput(model={self.model.hex()}, entropy=<secret>)"


def begin(state: ClientState, terms: Terms) -> ClientState:
    """Raise the high-water mark to this round, or refuse a round that was begun before: its masks would repeat."""
    now = (terms.epoch, terms.round)
    if state.mark >= now:
        raise Refusal(
            f"epoch {terms.epoch}, round {terms.round} is not after epoch {state.mark[0]}, round {state.mark[1]}, "
            "which was begun already; a round is never begun twice"
        )
    return msgspec.structs.replace(state, mark=now, phase=None)


def masked_upload(terms: Terms, tag: bytes, masks: list[Mask], given: StepInput) -> Upload:
    """Mask this client's update in place; the first bytes of `tag` say to the server what it was masked for."""
    ring = Ring(terms.ring)
    words = given.contribution(terms)
    ring.check(words, terms.length)
    add_masks(words, masks, threads=given.threads)
    return Upload(tag[:TAG_BYTES], ring.pack(words))
