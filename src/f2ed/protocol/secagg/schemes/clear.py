"""Sums in the clear, for simulations: the same integers and the same sum, without any secrecy."""

from collections.abc import Mapping
from typing import ClassVar, Literal, final

from f2ed.core.errors import PeerError
from f2ed.protocol.secagg.gather import Adder, gather
from f2ed.protocol.secagg.member import Member, StepInput, begin, masked_upload
from f2ed.protocol.secagg.messages import AskUpload, Request, Upload, write
from f2ed.protocol.secagg.schemes.base import ClientStep, Quorum, Scheme, ShardRound, Summation
from f2ed.protocol.secagg.state import ClientState
from f2ed.protocol.secagg.terms import bind, torn

__all__ = ["Clear"]


def upload(request: AskUpload, state: ClientState, member: Member, given: StepInput) -> tuple[ClientState, Upload]:
    """Upload the encoded update without a mask."""
    context = bind(request.terms, member.roster, given.model)
    return begin(state, request.terms), masked_upload(request.terms, context, [], given)


@final
class Clear(Scheme):
    """The server sees every update. Only clients that agree to it take part."""

    mode: ClassVar[Literal["clear"]] = "clear"
    masked: ClassVar[bool] = False
    steps: ClassVar[Mapping[type[Request], ClientStep]] = {AskUpload: upload}

    def quorum(self, members: int, colluders: int = 0) -> Quorum:  # noqa: ARG002  there is no crowd
        """Return one of each: a sum of any number may be opened."""
        return Quorum(1, 1)

    def add(self, shard: ShardRound) -> Summation:
        """Add the uploads of those who answer with all of their group."""
        adder = Adder(shard.terms, shard.context, groups=shard.terms.groups, zeros=shard.zeros)
        ask = write(AskUpload(shard.terms))
        uploaded = yield from gather("upload", dict.fromkeys(shard.terms.members, ask), adder.take, shard.dropped)
        whole = tuple(client for client in uploaded if client not in torn(shard.terms, uploaded))
        if not whole:
            raise PeerError("no member uploaded" if not uploaded else "no group uploaded as a whole")
        return whole, adder.total
