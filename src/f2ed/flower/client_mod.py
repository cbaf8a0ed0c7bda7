"""The client's side: a Flower mod around the user's own training function.

    app = ClientApp(mods=[protect])

The function trains as before. Its model stays in this process: only the difference to the global model leaves,
clipped, encoded and masked, after the terms of the round have been checked.
"""

import os
from collections.abc import Callable
from logging import ERROR, INFO, WARNING, getLogger

import msgspec
from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Message, RecordDict

from f2ed.core.errors import F2edError, Refusal
from f2ed.core.randomness import stream
from f2ed.deployment.identity import Identity
from f2ed.deployment.state_store import Kept
from f2ed.flower.arrays import fingerprint, flat, update
from f2ed.flower.context import identity_of
from f2ed.flower.wire import ARRAYS, OURS, Hello, hello_text, reply_content
from f2ed.protocol.aggregation import contribution, opening_cost
from f2ed.protocol.primitives.crypto import sign
from f2ed.protocol.secagg import Opening, Refused, Terms, Words, read_request, respond, write

__all__ = ["protect"]

_log = getLogger("f2ed.flower")

Train = Callable[[Message, Context], Message]

_NO_MODEL = bytes(32)


def protect(message: Message, context: Context, call_next: Train) -> Message:
    """Answer the protocol's messages, training where one asks for an update; a plain one is never sent.

    Messages of other kinds, such as `evaluate`, pass through. A request to train that is not the protocol's is refused.
    """
    if message.metadata.message_type.partition(".")[0] != "train":
        return call_next(message, context)
    try:
        reply = _answer(message, context, call_next)
    except F2edError as error:
        _log.log(WARNING, "f2ed: this node refused: %s", error)
        reply = write(Refused(str(error)[:500]))
    return Message(reply_content(reply), reply_to=message)


def _answer(message: Message, context: Context, train: Train) -> bytes:
    settings = message.content.config_records.get(OURS)
    if settings is None:
        raise Refusal("a request to train outside of the protocol; this client sends no plain update")
    me = identity_of(context)
    if "hello" in settings:
        return _hello(me, context, _bytes(settings, "hello"))
    return _step(me, context, message, _bytes(settings, "request"), train)


def _hello(me: Identity, context: Context, nonce: bytes) -> bytes:
    if len(nonce) != 32:
        raise Refusal(f"a question of {len(nonce)} bytes; 32 were expected")
    text = hello_text(me.roster.job(context.run_id), context.node_id, me.id, nonce)
    return msgspec.msgpack.encode(Hello(me.id, me.roster.digest, sign(me.signing_key, text)))


def _step(me: Identity, context: Context, message: Message, request: bytes, train: Train) -> bytes:
    """Take one step. The state is stored before the reply leaves, and no other message is answered meanwhile."""
    member = me.member(context.run_id)
    asked = read_request(request)
    with me.store.open(member.job) as desk:
        kept = desk.read()
        model = kept.model or _NO_MODEL
        if asked.asks_update:
            given = fingerprint(_one(message.content, "the request"))
            if not isinstance(asked, Opening) and given != kept.model:
                raise Refusal("the model came with another fingerprint than this round's keys are bound to")
            model = given
        elif asked.announces_model:
            model = _bytes(message.content.config_records[OURS], "model")
            if len(model) != 32:
                raise Refusal(f"a model's fingerprint of {len(model)} bytes; 32 were expected")
        answer = respond(
            member,
            kept.state,
            request,
            model=model,
            contribution=lambda terms: _trained(me, context, message, terms, train),
            entropy=os.urandom(32),
        )
        desk.write(Kept(answer.state, model))
    if answer.refusal:
        _log.log(WARNING, "f2ed: this node refused: %s", answer.refusal)
    return answer.reply


def _trained(me: Identity, context: Context, message: Message, terms: Terms, train: Train) -> Words:
    """Train and encode the update; a node with a budget refuses terms that it does not cover."""
    # A copy, since training may work in place.
    given = _one(message.content, "the request").items()
    before = ArrayRecord({name: Array(each.dtype, each.shape, each.stype, each.data) for name, each in given})
    cost = None
    if me.budget is not None:
        cost = opening_cost(terms, coordinates=len(flat(before)), survivors=terms.min_crowd)
        me.budget.check(cost)
    del message.content[OURS]
    try:
        reply = train(message, context)
    except Exception as error:  # noqa: BLE001  whatever the user's code may raise
        # Its text may quote data, so it goes into this node's log; the server learns the kind only.
        _log.log(ERROR, "f2ed: the training function failed", exc_info=error)
        raise Refusal(f"the training function raised {type(error).__name__}; see the log of the node") from None
    if reply.has_error():
        raise Refusal("the training function answered with an error; see the log of the node")
    change = update(before, _one(reply.content, "the training function's reply"))
    if me.budget is not None:
        spent = me.budget.pay(cost)
        _log.info("f2ed: this node's epsilon is now at most %.3g, of %g", spent, me.budget.dp_epsilon)
    _log.log(INFO, "f2ed: round %s: an update of %s coordinates leaves masked", terms.round + 1, len(change))
    return contribution(change, me.id, key=_rounding(me, context, terms))(terms)


def _rounding(me: Identity, context: Context, terms: Terms) -> bytes:
    """Return the key of the random rounding; simulations may fix it, to compare runs to the bit."""
    seed = context.run_config.get("f2ed-rounding-seed")
    if me.test and seed is not None:
        return stream(int(seed), "rounding", terms.round, me.id).bytes(32)
    return os.urandom(32)


def _one(content: RecordDict, what: str) -> ArrayRecord:
    records = content.array_records
    if ARRAYS in records:
        return records[ARRAYS]
    if len(records) != 1:
        raise Refusal(f"{what} holds {len(records)} array records and none called {ARRAYS!r}; one model was expected")
    return next(iter(records.values()))


def _bytes(settings: ConfigRecord, name: str) -> bytes:
    value = settings.get(name)
    if not isinstance(value, bytes):
        raise Refusal(f"a request without {name!r}; server and client may have different versions of f2ed")
    return value
