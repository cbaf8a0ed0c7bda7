"""Apps in Flower's older form: a `client_fn` that returns a `Client` or a `NumPyClient`.

They read the model as a list of arrays without names, and return one. The names are those of the model that came in.
"""

import io
from typing import Any

import numpy as np
import numpy.typing as npt
from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict

from f2ed.core.errors import ConfigError
from f2ed.deployment.train_input import TrainInput
from f2ed.flower.handover import Call, clean_message
from f2ed.flower.wire import ARRAYS

__all__ = ["asks_for_old_form", "train_in_old_form"]

_GIVEN, _RETURNED = "fitins", "fitres"


def asks_for_old_form(error: KeyError) -> bool:
    """Return whether this is what a `client_fn` says to a message in the form of today."""
    return _GIVEN in str(error)


def train_in_old_form(given: TrainInput, context: Context, train: Call) -> Message:
    """Call a `client_fn` to train, and return its reply in the form of today."""
    message = clean_message(given)
    content = message.content
    old: dict[str, ArrayRecord | MetricRecord | ConfigRecord] = {
        f"{_GIVEN}.parameters": content.array_records[given.arrays_name],
        f"{_GIVEN}.config": content.config_records.get(given.config_name, ConfigRecord()),
    }
    message.content = RecordDict(old)
    reply = train(message, context)
    if reply.has_error():
        return reply
    status = reply.content.config_records.get(f"{_RETURNED}.status", ConfigRecord())
    if status.get("code", 0) != 0:
        raise ConfigError("the client's fit returned a status that is not OK")
    found = list(reply.content.array_records[f"{_RETURNED}.parameters"].values())
    names = [each.name for each in given.arrays]
    if len(found) != len(names):
        raise ConfigError(f"the client's fit returned {len(found)} arrays; the model has {len(names)}")
    arrays = {name: Array(_values(each.data)) for name, each in zip(names, found, strict=True)}
    return Message(RecordDict({ARRAYS: ArrayRecord(arrays)}), reply_to=message)


def _values(data: bytes) -> npt.NDArray[Any]:
    values: npt.NDArray[Any] = np.load(io.BytesIO(data), allow_pickle=False)
    return values
