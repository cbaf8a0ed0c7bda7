"""How a node answers a message: every check before training, and all that is done with an update after it.

The one place for both ways to run a node: `protect` calls it in the app's process, or the node's agent calls it in a
process that the app cannot read. What a node says about a failure depends on the request and the roster alone; anything
else stays in its log. Whether training succeeded is not visible from outside.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from logging import ERROR, WARNING, getLogger
from typing import NamedTuple

import msgspec

from f2ed.core.errors import ConfigError, GoneError, PeerError, Refusal
from f2ed.core.randomness import stream
from f2ed.deployment.asked import Asked, Need, Reply, Train, faults_of_the_request, whole_update
from f2ed.deployment.hello import Hello, hello_text
from f2ed.deployment.helped_step import helped_upload
from f2ed.deployment.identity import Identity
from f2ed.deployment.log_events import Pen, step_events
from f2ed.deployment.masked_metrics import MetricRule, encoded_metrics, width
from f2ed.deployment.running_app import running_app
from f2ed.deployment.state_store import Kept
from f2ed.deployment.train_input import InputSummary, plain_settings, run_digest
from f2ed.deployment.training_rules import TRAIN
from f2ed.protocol.aggregation import UpdatePlan, check_length, contribution, opening_cost, random_words
from f2ed.protocol.aggregation.task import agreed_encoding
from f2ed.protocol.primitives.crypto import sign
from f2ed.protocol.secagg import Opening, Terms, Words, encapsulate, read_request, respond, write

__all__ = ["FAILED", "NOT_SET_UP", "answered"]

_log = getLogger("f2ed.deployment")

FAILED = "this node failed; the reason is in its own log"
NOT_SET_UP = "this node cannot take part; the reason is in its own log"
_NO_MODEL = bytes(32)


def answered(identify: Callable[[], Identity], launched: Mapping[str, str], asked: Asked, train: Train) -> Reply:
    """Answer a message, or refuse it. `launched` states which app runs, as the launcher's environment does.

    Raises `GoneError` alone, if the app's process ended: then nothing was stored, and nothing can be sent.
    """
    pen = Pen()
    try:
        return _answer(identify(), launched, asked, train, pen)
    except GoneError:
        raise
    except PeerError as error:
        _log.log(WARNING, "f2ed: this node refused: %s", error)
        reason = str(error)[:500]
    except ConfigError as error:
        _log.log(ERROR, "f2ed: this node cannot take part: %s", error)
        reason = NOT_SET_UP
    except Exception as error:  # noqa: BLE001  its text may quote anything
        _log.log(ERROR, "f2ed: this node failed", exc_info=error)
        reason = FAILED
    refusal = write(pen.refused(reason))
    return Reply(refusal, pen.line, reason)


class _Run(NamedTuple):
    """What a node was given for the whole run."""

    app: bytes
    """SHA-256 of the app, b"" if it is not known."""
    digest: bytes
    """Of the app and the run's settings."""


def _answer(me: Identity, launched: Mapping[str, str], asked: Asked, train: Train, pen: Pen) -> Reply:
    pen.log = me.log
    if asked.evaluates_masked:
        me.roster.training.check_evaluation()
    else:
        me.roster.training.check_message(asked.kind)
    if asked.fault:
        raise Refusal(asked.fault)
    run = _agreed_run(me, launched, asked)
    if asked.kind != TRAIN and not asked.evaluates_masked:
        asked.check_passed()
        _checked(me, run, asked)
        return Reply(stateful=me.roster.training.stateful, buffers=me.roster.array_rules)
    if not asked.in_protocol:
        raise Refusal("a request to train outside of the protocol; this client sends no plain update")
    if "hello" in asked.fields:
        asked.check_step(update=False)
        reply = _hello(me, asked, run)
        pen.write()
        return Reply(reply, pen.line)
    reply = _step(me, asked, run, train, pen)
    return Reply(reply, pen.line)


def _agreed_run(me: Identity, launched: Mapping[str, str], asked: Asked) -> _Run:
    """Return what runs here, or refuse an app or a run's configuration that the roster does not allow."""
    with faults_of_the_request():
        config = plain_settings(asked.run_config)
    me.roster.training.check_run_config(config)
    app = b"" if me.test else running_app(launched, me.roster)
    return _Run(app, run_digest(config, app))


def _checked(me: Identity, run: _Run, asked: Asked) -> InputSummary:
    """Return an input that the roster's rules allow, or refuse it."""
    if asked.given is None or asked.given.message_type != asked.kind:
        raise Refusal(f"a message of type {asked.kind[:80]!r} that says nothing about its input")
    with faults_of_the_request():
        given = msgspec.structs.replace(asked.given, config=plain_settings(asked.given.config))
    rules = me.roster.training
    rules.check_settings(given.config)
    if given.arrays:
        rules.check_layout(given.layout())
        if me.layouts is not None:
            me.layouts.check(run.app, given.layout())
    return given


def _hello(me: Identity, asked: Asked, run: _Run) -> bytes:
    nonce = asked.protocol_bytes("hello")
    if len(nonce) != 32:
        raise Refusal(f"a question of {len(nonce)} bytes; 32 were expected")
    last = -1 if me.rounds is None else me.rounds.last()
    text = hello_text(me.roster.job(asked.run), asked.node, me.id, run.digest, last, nonce)
    return msgspec.msgpack.encode(Hello(me.id, me.roster.digest, run.digest, last, sign(me.signing_key, text)))


def _step(me: Identity, message: Asked, run: _Run, train: Train, pen: Pen) -> bytes:
    """Take one step. State and log are stored before the reply leaves; no other message is answered meanwhile."""
    if me.roster.helpers:
        return _helped(me, message, run, train, pen)
    request = message.protocol_bytes("request")
    member = me.member(message.run)
    asked = read_request(request)
    if me.rounds is not None and isinstance(asked, Opening):
        me.rounds.check(asked.terms.round)
    message.check_step(update=asked.asks_update)
    given = _checked(me, run, message) if asked.asks_update else None
    with me.store.open(member.job) as desk:
        kept = desk.read()
        model = kept.model or _NO_MODEL
        if given is not None:
            found = given.digest(run.digest)
            if not isinstance(asked, Opening) and found != kept.model:
                raise Refusal("model or settings came with another fingerprint than this round's keys are bound to")
            model = found
        elif asked.announces_model:
            model = message.protocol_bytes("model")
            if len(model) != 32:
                raise Refusal(f"a model's fingerprint of {len(model)} bytes; 32 were expected")

        def update_words(terms: Terms) -> Words:
            if given is None:
                raise ConfigError("a step that uploads, and its request is not marked as one that asks for an update")
            metrics = me.roster.training.masked_metrics if message.evaluates_masked else ()
            plan = _agree_to_train(me, run, given, terms, metrics)
            return _trained_words(me, message, terms, plan, train, metrics)

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


def _helped(me: Identity, message: Asked, run: _Run, train: Train, pen: Pen) -> bytes:
    """Answer a request for an update under a roster with helpers; nothing is summed in shards there."""
    message.check_step(update=True)
    given = _checked(me, run, message)

    def pin_layout() -> None:
        if me.layouts is not None and me.layouts.pin(run.app, given.layout()):
            _log.info("f2ed: from now on this node trains models of layout %s alone", given.layout().hex())

    model = given.digest(run.digest)
    return helped_upload(me, message, given, model=model, pin_layout=pin_layout, train=train, pen=pen)


def _agree_to_train(
    me: Identity, run: _Run, given: InputSummary, terms: Terms, metrics: Sequence[MetricRule]
) -> UpdatePlan:
    """Refuse what public data alone rules out, and charge the budget, whether or not training will succeed.

    Returns what an update must be made of.
    """
    with faults_of_the_request():
        plan = _planned(me, given, terms, metrics)
        check_length(terms, coordinates := plan.coordinates)
    if not metrics and me.layouts is not None and me.layouts.pin(run.app, given.layout()):
        _log.info("f2ed: from now on this node trains models of layout %s alone", given.layout().hex())
    if me.budget is not None:
        spent = me.budget.pay(opening_cost(terms, coordinates=coordinates, survivors=terms.min_crowd))
        _log.info("f2ed: this node's epsilon is now at most %.3g, of %g", spent, me.budget.dp_epsilon)
    return plan


def _planned(me: Identity, given: InputSummary, terms: Terms, metrics: Sequence[MetricRule]) -> UpdatePlan:
    """Return what is sent: the arrays that the roster's rules let travel, or the metrics alone."""
    if metrics:
        return UpdatePlan((0,), (), (width(metrics),), width(metrics), (1.0,))
    return given.plan(me.roster.array_rules, clip_value=terms.clip_value)


def _trained_words(
    me: Identity, asked: Asked, terms: Terms, plan: UpdatePlan, train: Train, metrics: tuple[MetricRule, ...]
) -> Words:
    """Train and encode the update. If anything fails, return random words: the failure may depend on private data.

    The reason goes into this node's log. The server sees an upload like any other, in a sum that cannot be decoded.
    """
    try:
        need = Need(me.roster.training.stateful, me.roster.array_rules, metrics)
        change = whole_update(train(need), plan.coordinates)
        if metrics:
            change = encoded_metrics(metrics, change, agreed_encoding(terms, plan.coordinates))
        words = contribution(plan.narrowed(change) if plan.scales else change, me.id, key=_rounding(me, asked, terms))(
            terms
        )
    except (KeyboardInterrupt, GoneError):
        raise
    except BaseException as error:  # noqa: BLE001  whatever the user's code may raise, SystemExit among it
        _log.log(ERROR, "f2ed: training failed, so random words leave in place of the update", exc_info=error)
    else:
        what = "metrics" if metrics else "an update"
        _log.info("f2ed: round %s: %s of %s coordinates leaves masked", terms.round + 1, what, len(change))
        return words
    return random_words(terms, key=os.urandom(32))


def _rounding(me: Identity, asked: Asked, terms: Terms) -> bytes:
    """Return the key of the random rounding; simulations may fix it, to compare runs to the bit."""
    seed = asked.run_config.get("f2ed-rounding-seed")
    if me.test and seed is not None:
        return stream(int(seed), "rounding", terms.round, me.id).bytes(32)
    return os.urandom(32)
