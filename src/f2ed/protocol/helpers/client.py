"""The client: one message in a round, and a mark that never goes back."""

from collections.abc import Callable, Mapping
from typing import final

import msgspec
import numpy as np
import numpy.typing as npt

from f2ed.core.errors import ConfigError, PeerError, Refusal
from f2ed.protocol.helpers.envelope import make_upload
from f2ed.protocol.helpers.keys import check_openings
from f2ed.protocol.helpers.machine import Answer
from f2ed.protocol.helpers.messages import Refused, Upload, decode, write
from f2ed.protocol.helpers.requests import AskUpload
from f2ed.protocol.helpers.terms import Terms, bind, check, encoding_of, lasting
from f2ed.protocol.primitives.crypto import KEY_BYTES
from f2ed.protocol.primitives.hybrid import Encapsulate
from f2ed.protocol.quantization.encoding import Update, quantize, shorten
from f2ed.protocol.sharding import ClientId

__all__ = ["HelpedClient", "Numbers", "encoded", "respond_as_client"]

Numbers = Callable[[Terms], npt.NDArray[np.int64]]
"""Returns the encoded update for the terms."""


@final
class HelpedClient(msgspec.Struct, frozen=True, kw_only=True):
    """What a client knows by itself and never takes from the server."""

    id: ClientId
    signing_key: bytes
    roster: Mapping[ClientId, bytes]
    policy: bytes
    job: str
    parties: tuple[bytes, bytes, bytes]
    """The Ed25519 keys of server, mixer and judge, pinned."""
    accept: Callable[[Terms], None] | None = None
    """Compares terms with the policy, and raises an error where they differ; None follows any safe terms."""

    def __repr__(self) -> str:
        """Show everything but the private key."""
        return f"HelpedClient(id={self.id}, job={self.job!r}, signing_key=<secret>)"


@final
class _State(msgspec.Struct, frozen=True, array_like=True):
    policy: bytes
    job: str
    mark: tuple[int, int]
    lasting: bytes
    """The digest of what the first terms said; later ones must say the same."""


def encoded(update: Update, *, key: bytes) -> Numbers:
    """Return what a client hands to `respond_as_client`: its update, clipped and rounded when the terms are known.

    `key` seeds the rounding: 32 bytes of `os.urandom`, or of a named stream in a simulation.
    """

    def numbers(terms: Terms) -> npt.NDArray[np.int64]:
        encoding = encoding_of(terms)
        words, _ = quantize(update, shorten(update, encoding), encoding, clients=1, key=key)
        return words[: len(update)].view(np.int64)

    return numbers


def respond_as_client(
    client: HelpedClient,
    stored: bytes,
    request: bytes,
    *,
    model: bytes,
    numbers: Numbers,
    entropy: bytes,
    encapsulate: Encapsulate,
) -> Answer:
    """Answer the server's request. Store the new state before sending the reply.

    `stored` is what the last answer returned to be stored, or b"" at first; `model` is SHA-256 of the model that this
    client received, and of all else that its training sees; `entropy` is 32 fresh bytes of `os.urandom`.
    """
    if len(entropy) != KEY_BYTES:
        raise ConfigError(f"{len(entropy)} bytes of entropy; give {KEY_BYTES} fresh ones from os.urandom")
    state = _load(stored, client)
    try:
        message = decode((AskUpload,), request)
        assert isinstance(message, AskUpload)  # noqa: S101  the only kind
        terms = message.terms
        _check_terms(terms, client)
        now = (terms.epoch, terms.round)
        if state is not None and state.mark >= now:
            raise Refusal(f"epoch and round {now} are not after {state.mark}, which was begun; none is begun twice")
        if state is not None and state.lasting != lasting(terms):
            raise Refusal("the terms differ from those of an earlier round; under one policy only the round changes")
        context = bind(terms, client.roster, model)
        check_openings(message.openings, terms, context)
    except PeerError as error:
        return Answer(stored, write(Refused(str(error)[:500])), str(error))
    after = msgspec.msgpack.encode(_State(client.policy, client.job, now, lasting(terms)))
    return Answer(after, write(_upload(message, context, client, numbers, entropy, encapsulate)))


def _upload(
    message: AskUpload,
    context: bytes,
    client: HelpedClient,
    numbers: Numbers,
    entropy: bytes,
    encapsulate: Encapsulate,
) -> Upload:
    row = numbers(message.terms)
    if row.dtype != np.int64 or row.shape != (message.terms.coordinates,):
        raise ConfigError(
            f"a row of {row.dtype} and shape {row.shape}; this round adds {message.terms.coordinates} coordinates"
        )
    return make_upload(
        row,
        message.terms,
        context,
        client=client.id,
        signing_key=client.signing_key,
        openings=message.openings,
        entropy=entropy,
        encapsulate=encapsulate,
    )


def _check_terms(terms: Terms, client: HelpedClient) -> None:
    try:
        check(terms)
        if client.accept is not None:
            client.accept(terms)
    except ConfigError as error:
        raise Refusal(f"the terms cannot be accepted: {error}") from None
    if terms.policy != client.policy or terms.job != client.job:
        raise Refusal(f"terms of job {terms.job!r} under another policy or job than this client takes part in")
    if terms.keys != client.parties:
        raise Refusal("the terms name other keys of server, mixer and judge than this client has pinned")
    if client.id not in terms.members:
        raise Refusal(f"client {client.id} is not among the members of this round")
    if strangers := [member for member in terms.members if member not in client.roster]:
        raise Refusal(f"client {strangers[0]} is not on the roster, so its key is not authenticated")


def _load(stored: bytes, client: HelpedClient) -> _State | None:
    if not stored:
        return None
    try:
        state = msgspec.msgpack.decode(stored, type=_State)
    except ValueError as error:
        raise ConfigError(f"a client's stored state cannot be read ({error})") from None
    if (state.policy, state.job) != (client.policy, client.job):
        raise ConfigError(f"a state of job {state.job!r} was loaded for job {client.job!r}; keep one state per job")
    return state
