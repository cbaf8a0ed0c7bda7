"""Calls of the app's own functions, on what was bound or allowed and on nothing else.

No text of an exception leaves the node: it may quote the data. Whether training succeeded is not visible at all.
"""

import os
from collections.abc import Callable
from logging import ERROR, INFO, getLogger

from flwr.app import ArrayRecord, Context, Message

from f2ed.core.errors import ConfigError
from f2ed.core.randomness import stream
from f2ed.deployment.identity import Identity
from f2ed.deployment.train_input import TrainInput
from f2ed.flower.arrays import update
from f2ed.flower.handover import arrays_of, clean_context, clean_message, kept_state
from f2ed.flower.wire import ARRAYS
from f2ed.protocol.aggregation import contribution, random_words
from f2ed.protocol.secagg import Terms, Words

__all__ = ["Call", "evaluated", "trained_words"]

_log = getLogger("f2ed.flower")

Call = Callable[[Message, Context], Message]
"""The app's function for a message, with the mods after ours."""


def trained_words(me: Identity, context: Context, given: TrainInput, terms: Terms, train: Call) -> Words:
    """Train and encode the update. If anything fails, return random words: the failure may depend on private data.

    The reason goes into this node's log. The server sees an upload like any other, in a sum that cannot be decoded.
    """
    try:
        before = arrays_of(given)
        change = update(before, _trained_model(_called(me, context, given, train)))
        words = contribution(change, me.id, key=_rounding(me, context, terms))(terms)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001  whatever the user's code may raise, SystemExit among it
        _log.log(ERROR, "f2ed: training failed, so random words leave in place of the update", exc_info=error)
    else:
        _log.log(INFO, "f2ed: round %s: an update of %s coordinates leaves masked", terms.round + 1, len(change))
        return words
    return random_words(terms, key=os.urandom(32))


def evaluated(me: Identity, context: Context, given: TrainInput, evaluate: Call) -> Message | None:
    """Return the reply of a function whose replies leave in the clear, or None if it failed."""
    try:
        reply = _called(me, context, given, evaluate)
        if not reply.has_error():
            return reply
        _log.log(ERROR, "f2ed: the app's function answered with an error: %s", reply.error.reason)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001  as above
        _log.log(ERROR, "f2ed: the app's function failed", exc_info=error)
    return None


def _called(me: Identity, context: Context, given: TrainInput, call: Call) -> Message:
    """Call a function on a message and a context that were made anew; keep its state where the roster accepts that."""
    stateful = me.roster.training.stateful
    shown = clean_context(context, stateful=stateful)
    reply = call(clean_message(given), shown)
    if stateful:
        context.state = kept_state(context, shown)
    return reply


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
    if len(records) != 1:
        raise ConfigError(
            f"the training function's reply holds {len(records)} array records ({', '.join(records) or 'none'}); one "
            f"model was expected, best called {ARRAYS!r}. Others would be lost"
        )
    return next(iter(records.values()))
