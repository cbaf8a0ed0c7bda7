"""Apps in Flower's older form: a `client_fn` that returns a `Client` or a `NumPyClient`.

They read the model as a list of arrays without names, and return one. The names are those of the model that came in.
What they evaluate is called `loss`, `num-examples`, and by the names of their metrics.
"""

import io
from typing import Any

import numpy as np
import numpy.typing as npt
from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict

from f2ed.core.errors import ConfigError
from f2ed.deployment.train_input import TrainInput
from f2ed.deployment.training_rules import EVALUATE, TRAIN
from f2ed.flower.handover import Call, clean_message
from f2ed.flower.wire import ARRAYS

__all__ = ["answer_in_old_form", "asks_for_old_form"]

_GIVEN = {TRAIN: "fitins", EVALUATE: "evaluateins"}
_EXAMPLES, _METRICS = "num-examples", "metrics"
_FIT, _EVALUATED = "fitres", "evaluateres"


def asks_for_old_form(error: KeyError) -> bool:
    """Return whether this is what a `client_fn` says to a message in the form of today."""
    return any(name in str(error) for name in _GIVEN.values())


def answer_in_old_form(given: TrainInput, context: Context, call: Call) -> Message:
    """Call a `client_fn` to train or to evaluate, and return its reply in the form of today."""
    message = clean_message(given)
    content, kind = message.content, given.message_type.partition(".")[0]
    old: dict[str, ArrayRecord | MetricRecord | ConfigRecord] = {
        f"{_GIVEN[kind]}.parameters": content.array_records[given.arrays_name],
        f"{_GIVEN[kind]}.config": content.config_records.get(given.config_name, ConfigRecord()),
    }
    message.content = RecordDict(old)
    reply = call(message, context)
    if reply.has_error():
        return reply
    found = RecordDict({ARRAYS: _fitted(reply, given)} if kind == TRAIN else {_METRICS: _evaluated(reply)})
    return Message(found, reply_to=message)


def _fitted(reply: Message, given: TrainInput) -> ArrayRecord:
    if not _is_ok(reply, _FIT):
        raise ConfigError("the client's fit returned a status that is not OK; has the client such a function?")
    found = list(reply.content.array_records[f"{_FIT}.parameters"].values())
    names = [each.name for each in given.arrays]
    if len(found) != len(names):
        raise ConfigError(f"the client's fit returned {len(found)} arrays; the model has {len(names)}")
    return ArrayRecord({name: Array(_values(each.data)) for name, each in zip(names, found, strict=True)})


def _evaluated(reply: Message) -> MetricRecord:
    """Return the loss, the number of examples and the metrics that are numbers, under the names of today."""
    if not _is_ok(reply, _EVALUATED):
        raise ConfigError("the client's evaluate returned a status that is not OK; has the client such a function?")
    content = reply.content
    returned = content.config_records.get(f"{_EVALUATED}.metrics", ConfigRecord())
    numbers = {name: value for name, value in returned.items() if isinstance(value, int | float)}
    return MetricRecord(
        {
            **numbers,
            "loss": content.metric_records[f"{_EVALUATED}.loss"]["loss"],
            _EXAMPLES: content.metric_records[f"{_EVALUATED}.num_examples"]["num_examples"],
        }
    )


def _is_ok(reply: Message, name: str) -> bool:
    return reply.content.config_records.get(f"{name}.status", ConfigRecord()).get("code", 0) == 0


def _values(data: bytes) -> npt.NDArray[Any]:
    values: npt.NDArray[Any] = np.load(io.BytesIO(data), allow_pickle=False)
    return values
