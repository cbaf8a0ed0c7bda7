"""The client's side: a Flower mod around the user's own training function.

    app = ClientApp(mods=[protect])

The function trains as before, on an input that is bound to the masks and on nothing else. Its model stays in this
process: only the difference to the global model leaves, clipped, encoded and masked, after the terms of the round and
the roster's rules have been checked. Whether training succeeded is not visible from outside.
"""

import os
from logging import ERROR, WARNING, getLogger
from typing import NamedTuple

import msgspec
from flwr.app import ConfigRecord, Context, Error, Message
from flwr.common.constant import ErrorCode

from f2ed.core.errors import ConfigError, PeerError, Refusal
from f2ed.deployment.identity import Identity
from f2ed.deployment.running_app import running_app
from f2ed.deployment.state_store import Kept
from f2ed.deployment.train_input import TrainInput, run_digest
from f2ed.deployment.training_rules import TRAIN
from f2ed.flower.app_calls import Call, evaluated, trained_words
from f2ed.flower.context import identity_of
from f2ed.flower.handover import check_records, faults_of_the_request, passed_input, received_input, run_config_of
from f2ed.flower.log_events import Pen, step_events
from f2ed.flower.wire import OURS, Hello, hello_text, reply_content
from f2ed.protocol.aggregation import check_length, opening_cost
from f2ed.protocol.primitives.crypto import sign
from f2ed.protocol.secagg import Opening, Terms, Words, encapsulate, read_request, respond, write

__all__ = ["protect"]

_log = getLogger("f2ed.flower")

_NO_MODEL = bytes(32)
_NOT_SET_UP = "this node cannot take part; the reason is in its own log"
_FAILED = "this node failed; the reason is in its own log"


def protect(message: Message, context: Context, call_next: Call) -> Message:
    """Answer the protocol's messages, training where one asks for an update; a plain one is never sent.

    Messages of other types, such as `evaluate`, are answered only where the roster lists them. What a node says about a
    failure depends on the request and the roster alone; anything else stays in its log.
    """
    pen = Pen()
    try:
        return _answered(message, context, call_next, pen)
    except PeerError as error:
        _log.log(WARNING, "f2ed: this node refused: %s", error)
        reason = str(error)[:500]
    except ConfigError as error:
        _log.log(ERROR, "f2ed: this node cannot take part: %s", error)
        reason = _NOT_SET_UP
    except Exception as error:  # noqa: BLE001  Flower would send its text, which may quote anything
        _log.log(ERROR, "f2ed: this node failed", exc_info=error)
        reason = _FAILED
    return _refused(message, reason, pen)


def _refused(message: Message, reason: str, pen: Pen) -> Message:
    """Return a refusal as the sender reads it: the strategy in the protocol's record, any other as Flower's error."""
    refusal = pen.refused(reason)
    if message.metadata.message_type.partition(".")[0] == TRAIN:
        return Message(reply_content(write(refusal), pen.line), reply_to=message)
    return Message(Error(ErrorCode.MOD_FAILED_PRECONDITION, f"f2ed: this node refused: {reason}"), reply_to=message)


def _answered(message: Message, context: Context, call: Call, pen: Pen) -> Message:
    me = identity_of(context)
    pen.log = me.log
    kind = message.metadata.message_type
    me.roster.training.check_message(kind)
    run = _agreed_run(me, context)
    if kind != TRAIN:
        reply = evaluated(me, context, _checked(me, run, passed_input(message)), call)
        return _refused(message, _FAILED, pen) if reply is None else Message(reply.content, reply_to=message)
    answer = _answer(me, context, message, run, call, pen)
    return Message(reply_content(answer, pen.line), reply_to=message)


class _Run(NamedTuple):
    """What a node was given for the whole run."""

    app: bytes
    """SHA-256 of the app, b"" if it is not known."""
    digest: bytes
    """Of the app and the run's settings."""


def _agreed_run(me: Identity, context: Context) -> _Run:
    """Return what runs here, or refuse an app or a run's configuration that the roster does not allow."""
    config = run_config_of(context)
    me.roster.training.check_run_config(config)
    app = b"" if me.test else running_app(os.environ, me.roster)
    return _Run(app, run_digest(config, app))


def _checked(me: Identity, run: _Run, given: TrainInput) -> TrainInput:
    """Return an input that the roster's rules allow, with arrays that can be read safely, or refuse it."""
    rules = me.roster.training
    rules.check_settings(given.config)
    with faults_of_the_request():
        for array in given.arrays:
            array.checked()
    if given.arrays:
        rules.check_layout(given.layout())
        if me.layouts is not None:
            me.layouts.check(run.app, given.layout())
    return given


def _answer(me: Identity, context: Context, message: Message, run: _Run, train: Call, pen: Pen) -> bytes:
    settings = message.content.config_records.get(OURS)
    if settings is None:
        raise Refusal("a request to train outside of the protocol; this client sends no plain update")
    if "hello" in settings:
        check_records(message, {OURS: ConfigRecord})
        hello = _hello(me, context, run, _bytes(settings, "hello"))
        pen.write()
        return hello
    return _step(me, context, message, run, _bytes(settings, "request"), train, pen)


def _hello(me: Identity, context: Context, run: _Run, nonce: bytes) -> bytes:
    if len(nonce) != 32:
        raise Refusal(f"a question of {len(nonce)} bytes; 32 were expected")
    last = -1 if me.rounds is None else me.rounds.last()
    text = hello_text(me.roster.job(context.run_id), context.node_id, me.id, run.digest, last, nonce)
    return msgspec.msgpack.encode(Hello(me.id, me.roster.digest, run.digest, last, sign(me.signing_key, text)))


def _step(me: Identity, context: Context, message: Message, run: _Run, request: bytes, train: Call, pen: Pen) -> bytes:
    """Take one step. State and log are stored before the reply leaves; no other message is answered meanwhile."""
    member = me.member(context.run_id)
    asked = read_request(request)
    if me.rounds is not None and isinstance(asked, Opening):
        me.rounds.check(asked.terms.round)
    given: TrainInput | None = None
    if asked.asks_update:
        given = _checked(me, run, received_input(message))
    else:
        check_records(message, {OURS: ConfigRecord})
    with me.store.open(member.job) as desk:
        kept = desk.read()
        model = kept.model or _NO_MODEL
        if given is not None:
            found = given.digest(run.digest)
            if not isinstance(asked, Opening) and found != kept.model:
                raise Refusal("model or settings came with another fingerprint than this round's keys are bound to")
            model = found
        elif asked.announces_model:
            model = _bytes(message.content.config_records[OURS], "model")
            if len(model) != 32:
                raise Refusal(f"a model's fingerprint of {len(model)} bytes; 32 were expected")

        def update_words(terms: Terms) -> Words:
            if given is None:
                raise ConfigError("a step that uploads, and its request is not marked as one that asks for an update")
            _agree_to_train(me, run, given, terms)
            return trained_words(me, context, given, terms, train)

        answer = respond(
            member,
            kept.state,
            request,
            model=model,
            contribution=update_words,
            entropy=os.urandom(32),
            encapsulate=encapsulate,
        )
        events = step_events(asked, answer, member, model, kept.under_way)
        desk.write(Kept(answer.state, model, events.under_way))
        if me.rounds is not None and isinstance(asked, Opening) and asked.begins_round and not answer.refusal:
            me.rounds.spend(asked.terms.round)
        pen.write(*events.events)
    if answer.refusal:
        _log.log(WARNING, "f2ed: this node refused: %s", answer.refusal)
    return answer.reply


def _agree_to_train(me: Identity, run: _Run, given: TrainInput, terms: Terms) -> None:
    """Refuse what public data alone rules out, and charge the budget, whether or not training will succeed."""
    with faults_of_the_request():
        coordinates = given.coordinates()
        check_length(terms, coordinates)
    if me.layouts is not None and me.layouts.pin(run.app, given.layout()):
        _log.info("f2ed: from now on this node trains models of layout %s alone", given.layout().hex())
    if me.budget is not None:
        spent = me.budget.pay(opening_cost(terms, coordinates=coordinates, survivors=terms.min_crowd))
        _log.info("f2ed: this node's epsilon is now at most %.3g, of %g", spent, me.budget.dp_epsilon)


def _bytes(settings: ConfigRecord, name: str) -> bytes:
    value = settings.get(name)
    if not isinstance(value, bytes):
        raise Refusal(f"a request without {name!r}; server and client may have different versions of f2ed")
    return value
