"""Calls of the app's own functions, on what was bound or allowed and on nothing else.

No text of an exception leaves the node: it may quote the data.
"""

from logging import ERROR, getLogger

from flwr.app import ArrayRecord, Context, Message

from f2ed.core.errors import ConfigError
from f2ed.deployment.asked import Need
from f2ed.deployment.masked_metrics import metric_values
from f2ed.deployment.train_input import TrainInput
from f2ed.flower.arrays import Vector, update, update_plan
from f2ed.flower.handover import Call, arrays_of, clean_context, clean_message, kept_state
from f2ed.flower.legacy import answer_in_old_form, asks_for_old_form
from f2ed.flower.local_buffers import keep_local_buffers, with_local_buffers
from f2ed.flower.precision import explain
from f2ed.flower.wire import ARRAYS

__all__ = ["Call", "evaluated", "measured", "trained_update"]

_log = getLogger("f2ed.flower")


def trained_update(context: Context, given: TrainInput, train: Call, need: Need) -> Vector:
    """Train, and return what changed of the arrays that travel."""
    mine = with_local_buffers(context, given) if need.keeps_buffers else given
    before = arrays_of(mine)
    plan = update_plan(before, need.buffers, clip_value=1.0)
    after = _trained_model(_called(context, mine, train, stateful=need.stateful))
    change = update(before, after, plan)
    if need.keeps_buffers:
        names = list(before)
        keep_local_buffers(context, after, [names[place] for place in plan.staying])
    return change


def measured(context: Context, given: TrainInput, evaluate: Call, need: Need) -> Vector:
    """Evaluate, and return the metrics that the roster names; others stay here."""
    mine = with_local_buffers(context, given) if need.keeps_buffers and given.arrays else given
    reply = _called(context, mine, evaluate, stateful=need.stateful)
    if reply.has_error():
        raise ConfigError("the evaluating function answered with an error")
    found = {name: value for record in reply.content.metric_records.values() for name, value in record.items()}
    return metric_values(need.metrics, found)


def evaluated(context: Context, given: TrainInput, evaluate: Call, need: Need) -> Message | None:
    """Return the reply of a function whose replies leave in the clear, or None if it failed."""
    try:
        mine = with_local_buffers(context, given) if need.keeps_buffers else given
        reply = _called(context, mine, evaluate, stateful=need.stateful)
        if not reply.has_error():
            return reply
        _log.log(ERROR, "f2ed: the app's function answered with an error: %s", reply.error.reason)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001  whatever the user's code may raise, SystemExit among it
        _log.log(ERROR, "f2ed: the app's function failed", exc_info=error)
    return None


def _called(context: Context, given: TrainInput, call: Call, *, stateful: bool) -> Message:
    """Call a function on a message and a context that were rebuilt; keep its state where the roster accepts that."""
    shown = clean_context(context, stateful=stateful)
    try:
        reply = _replied(given, shown, call)
    except TypeError as error:
        explain(error)
        raise
    if stateful:
        context.state = kept_state(context, shown)
    return reply


def _replied(given: TrainInput, shown: Context, call: Call) -> Message:
    try:
        return call(clean_message(given), shown)
    except KeyError as error:
        if not asks_for_old_form(error):
            raise
    return answer_in_old_form(given, shown, call)


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
