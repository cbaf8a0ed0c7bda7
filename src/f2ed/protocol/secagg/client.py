"""The client's entry point, for every scheme.

Every step is a function from state and request to state and reply; `step` picks it from the scheme of the terms. A
client refuses whatever could cost its privacy, which ends the round for itself and for no other client.
"""

from typing import NamedTuple

import msgspec

from f2ed.core.errors import ConfigError, PeerError, Refusal
from f2ed.protocol.primitives.crypto import KEY_BYTES
from f2ed.protocol.primitives.hybrid import Encapsulate, HybridKey, PrivateKeys
from f2ed.protocol.secagg.checks import accept
from f2ed.protocol.secagg.member import Contribution, Member, StepInput
from f2ed.protocol.secagg.messages import Message, Opening, Refused, Request, write
from f2ed.protocol.secagg.schemes import SCHEMES, Scheme, phases, read_request
from f2ed.protocol.secagg.state import ClientState, load, store

__all__ = ["Answer", "respond", "step"]


class Answer(NamedTuple):
    """What to store and then to send; `refusal` is the reason, when the reply is a refusal."""

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
    encapsulate: Encapsulate,
    threads: int = 2,
    private_keys: PrivateKeys = HybridKey,
) -> Answer:
    """Answer one request. Store the new state before sending the reply, or a crash could make it answer twice.

    `state` is what the last answer returned to be stored, or b"" at first; `model` is SHA-256 of the global model that
    this client received, and of all else that its training sees; `entropy` is 32 fresh bytes of `os.urandom`, and
    `encapsulate` is `hybrid.encapsulate`, which draws its own. `private_keys` may keep loaded keys from one step to the
    next, but only where nothing is secret, as in a simulation. A refusal is a reply too: it drops this client alone.
    Errors of the caller, such as an update that is not finite, are raised.
    """
    if len(entropy) != KEY_BYTES:
        raise ConfigError(f"{len(entropy)} bytes of entropy; give {KEY_BYTES} fresh ones from os.urandom to each step")
    before = load(state, member.job, phases())
    try:
        given = StepInput(model, contribution, entropy, encapsulate, threads, private_keys)
        after, reply = step(read_request(request), before, member, given)
    except PeerError as error:
        # The round's secrets are erased with it. The key of an epoch stays: nothing was revealed under it.
        return Answer(store(msgspec.structs.replace(before, phase=None)), write(Refused(str(error)[:500])), str(error))
    return Answer(store(after), write(reply))


def step(request: Request, state: ClientState, member: Member, given: StepInput) -> tuple[ClientState, Message]:
    """Take the requested step, or raise `Refusal` (or another `PeerError`, for what cannot be used).

    Terms are accepted here, before the scheme sees them, so that no scheme can forget to.
    """
    if isinstance(request, Opening):
        scheme = _opened(request)
        request = msgspec.structs.replace(request, terms=accept(member, request.terms))
    else:
        scheme = _continued(request, state)
    return scheme.steps[type(request)](request, state, member, given)


def _opened(request: Opening) -> Scheme:
    mode = request.terms.mode
    scheme = SCHEMES.get(mode)
    if scheme is None:
        raise Refusal(f"terms of an unknown mode {mode!r}; this client knows {', '.join(SCHEMES)}")
    if type(request) not in scheme.steps:
        raise Refusal(f"terms of mode {mode!r} came with a request of another mode ({type(request).__name__})")
    return scheme


def _continued(request: Request, state: ClientState) -> Scheme:
    """Return the scheme of the round that is under way, or else one that knows the request and will refuse it."""
    known = [scheme for scheme in SCHEMES.values() if type(request) in scheme.steps]
    return next((scheme for scheme in known if isinstance(state.phase, scheme.phases)), known[0])
