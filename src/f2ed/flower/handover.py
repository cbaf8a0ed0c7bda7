"""The border between Flower's messages and the input of a training function.

A node takes from a request what the protocol binds and refuses anything else; the training function gets a message and
a context that were rebuilt from it. Node id, run id, message id, deadlines and `context.state` differ between members
without any trace in the masks, so the function does not see them.
"""

import time
from collections.abc import Mapping

from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Message, Metadata, RecordDict
from flwr.app.message import make_message

from f2ed.core.errors import Refusal
from f2ed.deployment.train_input import NamedArray, TrainInput, plain_settings
from f2ed.flower.wire import ARRAYS, CONFIG, OURS

__all__ = ["TRAIN", "arrays_of", "check_records", "clean_context", "clean_message", "received_input", "train_input"]

TRAIN = "train"
"""The only type of message that is trained on: no action, since the strategy sends none."""

_TTL = 1e6


def train_input(arrays: ArrayRecord, config: ConfigRecord) -> TrainInput:
    """Return what the clients of a round are given."""
    parts = (NamedArray(name, each.dtype, tuple(each.shape), each.stype, each.data) for name, each in arrays.items())
    return TrainInput(TRAIN, ARRAYS, tuple(parts), CONFIG, plain_settings(config))


def received_input(message: Message) -> TrainInput:
    """Return what a request gives to the training function, or refuse what the strategy does not send."""
    check_records(message, {OURS: ConfigRecord, ARRAYS: ArrayRecord, CONFIG: ConfigRecord})
    content = message.content
    given = train_input(content.array_records[ARRAYS], content.config_records[CONFIG])
    return given._replace(message_type=message.metadata.message_type)


def check_records(message: Message, expected: Mapping[str, type]) -> None:
    """Refuse a message of another type, with other records, or with other fields in the protocol's own record."""
    if (kind := message.metadata.message_type) != TRAIN:
        raise Refusal(f"a request of type {kind!r}; this client trains on messages of type {TRAIN!r} alone")
    for name, record in message.content.items():
        if not isinstance(record, expected.get(name, ())):
            raise Refusal(
                f"the request holds a {type(record).__name__} {name[:80]!r} that the strategy does not send at this "
                "step; what is not bound to the masks is not handed over"
            )
    if missing := [name for name in expected if name not in message.content]:
        raise Refusal(
            f"the request lacks the record {missing[0]!r}; server and client may have different versions of f2ed"
        )
    if extra := set(message.content[OURS]) - {"hello", "request", "model"}:
        raise Refusal(f"the protocol's record holds a field {min(extra)[:80]!r} that this client does not know")


def arrays_of(given: TrainInput) -> ArrayRecord:
    """Return the arrays as a record of its own: training may work in place."""
    return ArrayRecord({each.name: Array(each.dtype, each.shape, each.stype, each.data) for each in given.arrays})


def clean_message(given: TrainInput) -> Message:
    """Return the message that the training function sees: what was hashed, and metadata that is equal for everyone."""
    config = {name: list(value) if isinstance(value, list) else value for name, value in given.config.items()}
    content = RecordDict({given.arrays_name: arrays_of(given), given.config_name: ConfigRecord(config)})  # type: ignore[arg-type]
    metadata = Metadata(
        run_id=0,
        message_id="",
        src_node_id=0,
        dst_node_id=0,
        reply_to_message_id="",
        group_id=str(given.config.get("server-round", "")),
        created_at=time.time(),
        ttl=_TTL,
        message_type=given.message_type,
    )
    return make_message(metadata, content)


def clean_context(context: Context) -> Context:
    """Return the context that the training function sees: the node's own settings, the run's, and an empty state."""
    run_config = plain_settings(context.run_config)
    return Context(0, 0, dict(context.node_config), RecordDict(), run_config)  # type: ignore[arg-type]
