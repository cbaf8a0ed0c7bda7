"""The client's side: a Flower mod around the user's own training function.

    app = ClientApp(mods=[protect])

The function trains as before, on an input that is bound to the masks and on nothing else. Its model stays in this
process: only the difference to the global model leaves, clipped, encoded and masked, after the terms of the round have
been checked. Whether training succeeded is not visible from outside.
"""

import os
from collections.abc import Callable
from logging import ERROR, INFO, WARNING, getLogger

import msgspec
from flwr.app import ArrayRecord, ConfigRecord, Context, Message

from f2ed.core.errors import ConfigError, F2edError, Refusal
from f2ed.core.randomness import stream
from f2ed.deployment.identity import Identity
from f2ed.deployment.state_store import Kept
from f2ed.deployment.train_input import TrainInput, run_config_digest
from f2ed.flower.arrays import update
from f2ed.flower.context import identity_of
from f2ed.flower.handover import arrays_of, check_records, clean_context, clean_message, received_input
from f2ed.flower.wire import ARRAYS, OURS, Hello, hello_text, reply_content
from f2ed.protocol.aggregation import check_length, contribution, opening_cost, random_words
from f2ed.protocol.primitives.crypto import sign
from f2ed.protocol.secagg import Opening, Refused, Terms, Words, encapsulate, read_request, respond, write

__all__ = ["protect"]

_log = getLogger("f2ed.flower")

Train = Callable[[Message, Context], Message]

_NO_MODEL = bytes(32)
_NOT_OURS = {"evaluate", "query"}


def protect(message: Message, context: Context, call_next: Train) -> Message:
    """Answer the protocol's messages, training where one asks for an update; a plain one is never sent.

    Messages of the kinds `evaluate` and `query` pass through. Any other that is not the protocol's is refused.
    """
    if message.metadata.message_type.partition(".")[0] in _NOT_OURS:
        return call_next(message, context)
    try:
        reply = _answer(message, context, call_next)
    except F2edError as error:
        _log.log(WARNING, "f2ed: this node refused: %s", error)
        reply = write(Refused(str(error)[:500]))
    except Exception as error:  # noqa: BLE001  Flower would send its text, which may quote anything
        _log.log(ERROR, "f2ed: this node failed", exc_info=error)
        reply = write(Refused("this node failed; the reason is in its own log"))
    return Message(reply_content(reply), reply_to=message)


def _answer(message: Message, context: Context, train: Train) -> bytes:
    settings = message.content.config_records.get(OURS)
    if settings is None:
        raise Refusal("a request to train outside of the protocol; this client sends no plain update")
    me = identity_of(context)
    if "hello" in settings:
        check_records(message, {OURS: ConfigRecord})
        return _hello(me, context, _bytes(settings, "hello"))
    return _step(me, context, message, _bytes(settings, "request"), train)


def _hello(me: Identity, context: Context, nonce: bytes) -> bytes:
    if len(nonce) != 32:
        raise Refusal(f"a question of {len(nonce)} bytes; 32 were expected")
    run_config = run_config_digest(context.run_config)
    last = -1 if me.rounds is None else me.rounds.last()
    text = hello_text(me.roster.job(context.run_id), context.node_id, me.id, run_config, last, nonce)
    return msgspec.msgpack.encode(Hello(me.id, me.roster.digest, run_config, last, sign(me.signing_key, text)))


def _step(me: Identity, context: Context, message: Message, request: bytes, train: Train) -> bytes:
    """Take one step. The state is stored before the reply leaves, and no other message is answered meanwhile."""
    member = me.member(context.run_id)
    asked = read_request(request)
    if me.rounds is not None and isinstance(asked, Opening):
        me.rounds.check(asked.terms.round)
    given: TrainInput | None = None
    if asked.asks_update:
        given = received_input(message)
        coordinates = given.coordinates()
    else:
        check_records(message, {OURS: ConfigRecord})
    with me.store.open(member.job) as desk:
        kept = desk.read()
        model = kept.model or _NO_MODEL
        if given is not None:
            found = given.digest(run_config_digest(context.run_config))
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
            _agree_to_train(me, terms, coordinates)
            return _trained(me, context, given, terms, train)

        answer = respond(
            member,
            kept.state,
            request,
            model=model,
            contribution=update_words,
            entropy=os.urandom(32),
            encapsulate=encapsulate,
        )
        desk.write(Kept(answer.state, model))
        if me.rounds is not None and isinstance(asked, Opening) and asked.begins_round and not answer.refusal:
            me.rounds.spend(asked.terms.round)
    if answer.refusal:
        _log.log(WARNING, "f2ed: this node refused: %s", answer.refusal)
    return answer.reply


def _agree_to_train(me: Identity, terms: Terms, coordinates: int) -> None:
    """Refuse what public data alone rules out, and charge the budget, whether or not training will succeed."""
    check_length(terms, coordinates)
    if me.budget is not None:
        spent = me.budget.pay(opening_cost(terms, coordinates=coordinates, survivors=terms.min_crowd))
        _log.info("f2ed: this node's epsilon is now at most %.3g, of %g", spent, me.budget.dp_epsilon)


def _trained(me: Identity, context: Context, given: TrainInput, terms: Terms, train: Train) -> Words:
    """Train and encode the update. If anything fails, return random words: the failure may depend on private data.

    The reason goes into this node's log. The server sees an upload like any other, in a sum that cannot be decoded.
    """
    try:
        before = arrays_of(given)
        reply = train(clean_message(given), clean_context(context))
        change = update(before, _trained_model(reply))
        words = contribution(change, me.id, key=_rounding(me, context, terms))(terms)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001  whatever the user's code may raise, SystemExit among it
        _log.log(ERROR, "f2ed: training failed, so random words leave in place of the update", exc_info=error)
    else:
        _log.log(INFO, "f2ed: round %s: an update of %s coordinates leaves masked", terms.round + 1, len(change))
        return words
    return random_words(terms, key=os.urandom(32))


def _rounding(me: Identity, context: Context, terms: Terms) -> bytes:
    """Return the key of the random rounding; simulations may fix it, to compare runs to the bit."""
    seed = context.run_config.get("f2ed-rounding-seed")
    if me.test and seed is not None:
        return stream(int(seed), "rounding", terms.round, me.id).bytes(32)
    return os.urandom(32)


def _trained_model(reply: Message) -> ArrayRecord:
    if reply.has_error():
        raise ConfigError("the training function answered with an error")
    records = reply.content.array_records
    if ARRAYS in records:
        return records[ARRAYS]
    if len(records) != 1:
        raise ConfigError(
            f"the training function's reply holds {len(records)} array records and none called {ARRAYS!r}; "
            "one model was expected"
        )
    return next(iter(records.values()))


def _bytes(settings: ConfigRecord, name: str) -> bytes:
    value = settings.get(name)
    if not isinstance(value, bytes):
        raise Refusal(f"a request without {name!r}; server and client may have different versions of f2ed")
    return value
