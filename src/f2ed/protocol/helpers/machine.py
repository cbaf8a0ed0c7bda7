"""A helper as a state machine: one step per request, in order, each stored before its reply leaves.

    NEW: opening, vote      the set of clients may still shrink
    SET: set, reveal        one set is signed; then the half of the seed is told
    SHARED                  shares of one Gram matrix were given, for one set and one combination
    WEIGHED                 one set of survivors was signed (judge)
    DONE                    one sum was answered (mixer); seeds and keys are erased

A request that was answered before gets the same bytes again; another one for the same step is refused. A request
whose content is wrong ends the round: it is spent, and no later request revives it. State that is missing is refused,
and so is state that is older than what the other helper has seen.
"""

import hashlib
from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeAlias, cast, final

import msgspec

from f2ed.core.errors import ConfigError, PeerError, Refusal
from f2ed.protocol.helpers.helper_state import HelperState
from f2ed.protocol.helpers.messages import Message, Refused, decode, write
from f2ed.protocol.helpers.requests import Request
from f2ed.protocol.helpers.terms import JUDGE, MIXER, Role, Terms
from f2ed.protocol.primitives.crypto import KEY_BYTES
from f2ed.protocol.sharding import ClientId

__all__ = [
    "Answer",
    "Helper",
    "Machine",
    "StaleStateError",
    "StepInput",
    "Taken",
    "begin_job",
    "continue_job",
    "end_round",
    "follow_job",
    "load",
    "run_step",
    "store",
]

_LONG = 1 << 16
"""Bytes of a request up to which all of it is hashed."""


@final
class Helper(msgspec.Struct, frozen=True, kw_only=True):
    """What a helper knows by itself and never takes from the server."""

    role: Role
    operator: str
    signing_key: bytes
    """Its private Ed25519 key, 32 bytes, whose public half stands in the policy."""
    roster: Mapping[ClientId, bytes]
    """The clients' public Ed25519 keys, from the policy."""
    policy: bytes
    """SHA-256 of the policy."""
    job: str
    accept: Callable[[Terms], None] | None = None
    """Compares terms with the policy, and raises an error where they differ; None follows any safe terms."""

    def __post_init__(self) -> None:
        """Refuse the server's role."""
        if self.role not in (MIXER, JUDGE):
            raise ConfigError(f"a helper in the role of the {self.role}; it is the mixer or the judge")

    def __repr__(self) -> str:
        """Show everything but the private key."""
        return f"Helper({self.role}, operator={self.operator!r}, job={self.job!r}, signing_key=<secret>)"


class StaleStateError(Refusal):
    """The state is an old copy: the other helper has seen a later round."""


class StepInput(NamedTuple):
    """Fresh bytes for one step, 32 each: `entropy` is secret, `half` becomes half of a seed that is told later."""

    entropy: bytes
    half: bytes

    def __repr__(self) -> str:
        """Show no secret."""
        return "StepInput(<secret>)"


class Taken(NamedTuple):
    """A step that was taken."""

    request: Request
    before: HelperState
    after: HelperState
    reply: Message


class Answer(NamedTuple):
    """What to store, and then to send."""

    state: bytes
    reply: bytes
    refusal: str | None = None
    taken: Taken | None = None
    """None for a refusal, and for a reply that is repeated."""

    def __repr__(self) -> str:
        """Show everything but the state, which holds secrets."""
        return f"Answer(state=<secret>, reply={len(self.reply)} bytes, refusal={self.refusal!r})"


Step: TypeAlias = Callable[[HelperState, Request, Helper, StepInput], tuple[HelperState, Message]]
Machine: TypeAlias = Mapping[type[Request], Step]
"""The steps of a role in their order."""


def begin_job(policy: bytes, job: str) -> bytes:
    """Return the state of a helper that takes up a job, once. A helper that lost its state must not do it again."""
    if len(policy) != KEY_BYTES:
        raise ConfigError(f"a policy digest of {len(policy)} bytes; give SHA-256 of the policy")
    return store(HelperState(policy=policy, job=job))


def continue_job(
    policy: bytes,
    job: str,
    *,
    mark: tuple[int, ...],
    kept: tuple[ClientId, ...] | None,
    struck: tuple[ClientId, ...] = (),
) -> bytes:
    """Return the state of a helper whose earlier rounds are known, as in a simulation that is resumed."""
    return store(HelperState(policy=policy, job=job, mark=mark, kept=kept, struck=struck))


def follow_job(stored: bytes, helper: Helper) -> bytes:
    """Return the state of a helper that goes on to another job or policy of its federation.

    Marks, survivors and strikes stay, so that a new job undoes nothing; a round that was under way is over.
    """
    state = _read(stored, helper)
    if (state.policy, state.job) == (helper.policy, helper.job):
        return stored
    return store(msgspec.structs.replace(end_round(state), policy=helper.policy, job=helper.job, lasting=b""))


def end_round(state: HelperState) -> HelperState:
    """Return the state without the round under way; rows that the server did not show count against it."""
    unshown = state.unshown + bool(state.round is not None and state.round.wanted)
    return msgspec.structs.replace(state, round=None, unshown=unshown)


def store(state: HelperState) -> bytes:
    """Return the state as bytes; they hold secrets."""
    return msgspec.msgpack.encode(state)


def load(data: bytes, helper: Helper) -> HelperState:
    """Read a stored state, or refuse one that is missing, broken or of another job."""
    state = _read(data, helper)
    if state.job != helper.job or state.policy != helper.policy:
        raise ConfigError(f"a state of job {state.job!r} under another policy or job was loaded for {helper.job!r}")
    return state


def _read(data: bytes, helper: Helper) -> HelperState:
    if not data:
        raise Refusal(
            f"this {helper.role} has no state of job {helper.job!r}: it was lost, or the job was never taken up here; "
            "without it a sum could be answered twice"
        )
    try:
        return msgspec.msgpack.decode(data, type=HelperState)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"a helper's stored state cannot be read ({error}); only bytes from `store` can") from None


def run_step(machine: Machine, helper: Helper, stored: bytes, request: bytes, *, entropy: bytes, half: bytes) -> Answer:
    """Answer one request. Store the new state before sending the reply.

    `entropy` is 32 fresh bytes of `os.urandom`, and so is `half`, but in simulations, where a seeded half makes runs
    in the clear repeat the same sketch.
    """
    if len(entropy) != KEY_BYTES or len(half) != KEY_BYTES:
        raise ConfigError(f"give {KEY_BYTES} fresh bytes of entropy, and as many for the half of the seed")
    try:
        state = load(stored, helper)
        message = cast("Request", decode(tuple(machine), request))
        name = _name(request)
        if state.round and (answered := dict(state.round.replies).get(name)):
            return Answer(stored, answered)
        place = _check_order(machine, state, message, helper)
    except PeerError as error:
        return Answer(stored, write(Refused(str(error)[:500])), str(error))
    try:
        after, reply = machine[type(message)](state, message, helper, StepInput(entropy, half))
    except PeerError as error:
        if place == 0:  # The round that is under way goes on.
            return Answer(stored, write(Refused(str(error)[:500])), str(error))
        spent = msgspec.structs.replace(end_round(state), stale=state.stale or isinstance(error, StaleStateError))
        return Answer(store(spent), write(Refused(str(error)[:500], spent=True)), str(error))
    written = write(reply)
    if now := after.round:
        now = msgspec.structs.replace(now, replies=(*now.replies, (name, written)))
        after = msgspec.structs.replace(after, round=now)
    return Answer(store(after), written, taken=Taken(message, state, after, reply))


def _name(request: bytes) -> bytes:
    """Return what a request is known by, should it be repeated.

    A long one ends with what authenticates all of it. Another one of the same name would get the reply of the first.
    """
    ending = request if len(request) <= _LONG else request[-_LONG:] + len(request).to_bytes(8, "big")
    return hashlib.sha256(ending).digest()


def _check_order(machine: Machine, state: HelperState, message: Request, helper: Helper) -> int:
    """Return the place of a step, or refuse one out of order; the round goes on, whatever confused the server."""
    place = list(machine).index(type(message))
    name, now = type(message).__name__, state.round
    if not place:
        return 0
    if now is None:
        raise Refusal(f"{name} without a round: none was opened, or it is spent")
    if place != now.step + 1:
        done = f"this {helper.role} has answered step {now.step} of this round"
        raise Refusal(f"{name} out of order: {done}, and it answers every step once")
    return place
