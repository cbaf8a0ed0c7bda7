"""A node's one message in a round with helpers: every check before training, and the upload after it."""

import os
from collections.abc import Callable
from logging import ERROR, WARNING, getLogger

import numpy as np
import numpy.typing as npt

from f2ed.core.errors import GoneError, Refusal
from f2ed.deployment.asked import Asked, Need, Train, faults_of_the_request, whole_update
from f2ed.deployment.helper_events import began_with_helpers, openings_digest
from f2ed.deployment.identity import Identity
from f2ed.deployment.log_events import Pen
from f2ed.deployment.roster import acceptance, helped_terms
from f2ed.deployment.state_store import Kept
from f2ed.deployment.train_input import InputSummary
from f2ed.deployment.transparency import lines as log
from f2ed.protocol.helpers import HelpedClient, Terms, encoded, respond_as_client
from f2ed.protocol.helpers.messages import decode
from f2ed.protocol.helpers.requests import AskUpload
from f2ed.protocol.helpers.terms import bind
from f2ed.protocol.primitives.hybrid import encapsulate

__all__ = ["helped_upload"]

_log = getLogger("f2ed.deployment")


def helped_upload(
    me: Identity,
    asked: Asked,
    given: InputSummary,
    *,
    model: bytes,
    pin_layout: Callable[[], None],
    train: Train,
    pen: Pen,
) -> bytes:
    """Answer a request for an update that is shared among server, mixer and judge.

    `model` is the digest of the input, which has been checked. The round is spent before training, state and log are
    stored before the reply leaves, and no other message is answered meanwhile.
    """
    request = asked.protocol_bytes("request")
    message = decode((AskUpload,), request)
    assert isinstance(message, AskUpload)  # noqa: S101  the only kind
    roster, terms = me.roster, message.terms
    _check(me, given, terms)
    job = roster.job(asked.run)

    def numbers(agreed: Terms) -> npt.NDArray[np.int64]:
        if me.rounds is not None:
            me.rounds.spend(agreed.round)
        pin_layout()
        return _trained(me, agreed, train)

    client = HelpedClient(
        id=me.id,
        signing_key=me.signing_key,
        roster=roster.keys,
        policy=roster.digest,
        job=job,
        parties=helped_terms(roster, job, terms.round, coordinates=terms.coordinates).keys,
        accept=acceptance(roster),
    )
    with me.store.open(job) as desk:
        answer = respond_as_client(
            client,
            desk.read().state,
            request,
            model=model,
            numbers=numbers,
            entropy=os.urandom(32),
            encapsulate=encapsulate,
        )
        desk.write(Kept(answer.state))
        pen.write(*_events(me, message, model, answer.refusal))
    if answer.refusal:
        _log.log(WARNING, "f2ed: this node refused: %s", answer.refusal)
    return answer.reply


def _check(me: Identity, given: InputSummary, terms: Terms) -> None:
    """Refuse what the request, the roster and this node's own settings rule out, before anything is stored."""
    me.roster.check_grouped(me.id)
    if me.budget is not None or me.noise:
        raise Refusal("this node demands noise for differential privacy, and sums with helpers carry none")
    if me.rounds is not None:
        me.rounds.check(terms.round)
    with faults_of_the_request():
        plan = given.plan(me.roster.array_rules, clip_value=me.roster.encoding.clip_value)
    if plan.scales or plan.trained < plan.coordinates:
        raise Refusal(
            "with helpers all coordinates are judged together and clipped alike; the authority signs buffers as keep "
            "or local, and no clips of single arrays"
        )
    if terms.coordinates != plan.coordinates:
        raise Refusal(
            f"terms for {terms.coordinates} coordinates; the model that came with them has {plan.coordinates}"
        )


def _trained(me: Identity, terms: Terms, train: Train) -> npt.NDArray[np.int64]:
    """Train and encode the update. If anything fails, return zeros: the failure may depend on private data.

    The reason goes into this node's log. Server and mixer see an upload like any other; random words would be out of
    range, and name this node to everybody.
    """
    try:
        change = train(Need(me.roster.training.stateful, me.roster.array_rules))
        row = encoded(whole_update(change, terms.coordinates), key=os.urandom(32))(terms)
    except (KeyboardInterrupt, GoneError):
        raise
    except BaseException as error:  # noqa: BLE001  whatever the user's code may raise, SystemExit among it
        _log.log(ERROR, "f2ed: training failed, so zeros leave in place of the update", exc_info=error)
        return np.zeros(terms.coordinates, np.int64)
    _log.info("f2ed: round %s: an update of %s coordinates leaves in shares", terms.round + 1, terms.coordinates)
    return row


def _events(me: Identity, asked: AskUpload, model: bytes, refusal: str | None) -> tuple[log.Event, ...]:
    """Return what the upload adds to the log."""
    if refusal:
        return (log.Refused(reason=refusal[:500]),)
    terms = asked.terms
    ctx = bind(terms, me.roster.keys, model)
    began = began_with_helpers(terms, ctx, model, openings_digest(asked.openings))
    return began, log.Uploaded(round=terms.round, shard=0, ctx=ctx)
