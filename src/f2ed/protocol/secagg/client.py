"""The client's one entry point, for both modes.

Every step is a function from state and request to state and reply; `step` picks it. A client refuses whatever
could cost its privacy, which ends its own part in the round and nobody else's.
"""

from typing import NamedTuple, assert_never

import msgspec

from f2ed.core.errors import ConfigError, PeerError
from f2ed.protocol.primitives.crypto import KEY_BYTES
from f2ed.protocol.secagg.member import Contribution, Local, Member
from f2ed.protocol.secagg.messages import (
    Alive,
    AskKey,
    AskUpload,
    Confirmations,
    Delivery,
    Invite,
    Peers,
    Refused,
    Reply,
    Request,
    read_request,
    write,
)
from f2ed.protocol.secagg.schemes import all_or_nothing_client as epoch_client
from f2ed.protocol.secagg.schemes import dropout_tolerant_client as round_client
from f2ed.protocol.secagg.state import State, load, store

__all__ = ["Answer", "respond", "step"]


class Answer(NamedTuple):
    """What to store and then to send; `refusal` says why, when the reply is a refusal."""

    state: bytes
    reply: bytes
    refusal: str | None = None

    def __repr__(self) -> str:
        """Show everything but the state, which holds secrets."""
        return f"Answer(state=<secret>, reply={len(self.reply)} bytes, refusal={self.refusal!r})"


def respond(
    member: Member,
    state: bytes,
    request: bytes,
    *,
    model: bytes,
    contribution: Contribution,
    entropy: bytes,
    threads: int = 2,
) -> Answer:
    """Answer one request. Store the new state before sending the reply, or a crash could make it answer twice.

    `state` is what the last answer said to store, or b"" at first; `model` is SHA-256 of the global model that this
    client was given; `entropy` is 32 fresh bytes of `os.urandom`. A refusal is a reply too: it drops this client
    alone. Errors of the caller, such as an update that is not finite, are raised.
    """
    if len(entropy) != KEY_BYTES:
        raise ConfigError(f"{len(entropy)} bytes of entropy; give {KEY_BYTES} fresh ones from os.urandom to each step")
    before = load(state, member.job)
    try:
        after, reply = step(read_request(request), before, member, Local(model, contribution, entropy, threads))
    except PeerError as error:
        # What the round held in secret goes with it. The key of an epoch stays: nothing was given away under it.
        return Answer(store(msgspec.structs.replace(before, phase=None)), write(Refused(str(error)[:500])), str(error))
    return Answer(store(after), write(reply))


def step(request: Request, state: State, member: Member, local: Local) -> tuple[State, Reply]:
    """Take the step that was asked for, or raise `Refusal` (or another `PeerError`, for what cannot be used)."""
    match request:
        case AskKey():
            return epoch_client.give_key(request, state, member, local)
        case AskUpload():
            return epoch_client.upload(request, state, member, local)
        case Invite():
            return round_client.advertise(request, state, member, local)
        case Peers():
            return round_client.share(request, state, member, local)
        case Delivery():
            return round_client.upload(request, state, member, local)
        case Alive():
            return round_client.confirm(request, state, member)
        case Confirmations():
            return round_client.reveal(request, state, member)
        case _:
            assert_never(request)
