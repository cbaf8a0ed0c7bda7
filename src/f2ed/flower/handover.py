"""The border between Flower's messages and the input of a training function.

A node takes from a request what the protocol binds and the roster's rules allow, and refuses anything else; the
training function gets a message and a context that were rebuilt from it. Node id, run id, message id, deadlines and
`context.state` differ between members without any trace in the masks, so the function does not see them.
"""

import copy
import time
from collections.abc import Callable, Iterable
from logging import getLogger

from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Message, Metadata, RecordDict
from flwr.app.message import make_message

from f2ed.core.errors import ConfigError, Refusal
from f2ed.deployment.asked import Asked, faults_of_the_request
from f2ed.deployment.train_input import NamedArray, Setting, TrainInput, plain_settings
from f2ed.deployment.training_rules import SERVER_ROUND, SERVERS_OWN, TRAIN, TrainingRules
from f2ed.flower.wire import ARRAYS, BUFFERS, CONFIG, OURS, STATE

__all__ = [
    "Call",
    "arrays_of",
    "check_model",
    "check_start",
    "clean_context",
    "clean_message",
    "described",
    "kept_state",
    "run_config_of",
    "train_input",
]

_log = getLogger("f2ed.flower")

_TTL = 1e6
_OWN = (STATE, BUFFERS)

Call = Callable[[Message, Context], Message]
"""The app's function for a message, with the mods after ours."""


def train_input(arrays: ArrayRecord, config: ConfigRecord, message_type: str = TRAIN) -> TrainInput:
    """Return what the clients of a round are given."""
    parts = (NamedArray(name, each.dtype, tuple(each.shape), each.stype, each.data) for name, each in arrays.items())
    return TrainInput(message_type, ARRAYS, tuple(parts), CONFIG, plain_settings(config))


def check_model(arrays: object) -> None:
    """Raise `ConfigError` for anything but one record of arrays."""
    if not isinstance(arrays, ArrayRecord):
        raise ConfigError(
            f"initial_arrays is a {type(arrays).__name__}; give one ArrayRecord, since one model is averaged. Further "
            "records, such as control variates, are not supported"
        )


def check_start(rules: TrainingRules, arrays: ArrayRecord, configs: Iterable[ConfigRecord]) -> None:
    """Raise `ConfigError` at the start of a server whose requests, in any round, its clients would refuse."""
    check_model(arrays)
    given = train_input(arrays, ConfigRecord())
    for array in given.arrays:
        array.checked()
    layout = given.layout()
    try:
        rules.check_layout(layout)
        for config in configs:
            if SERVER_ROUND in config:
                raise ConfigError(
                    f"train_config sets {SERVER_ROUND!r}, which the strategy sets itself; choose another name"
                )
            rules.check_settings(plain_settings(config))
    except Refusal as error:
        raise ConfigError(f"the clients would refuse train_config or the model: {error}") from None
    _log.info("f2ed: the layout of the model is %s", layout.hex())


def described(message: Message, context: Context) -> tuple[Asked, TrainInput | None]:
    """Return a message as the holder of the node's key gets it, and what a function would be given."""
    content, kind = message.content, message.metadata.message_type
    fault, settings, given = "", dict[str, Setting](), None
    try:
        settings = run_config_of(context)
        if kind != TRAIN or ARRAYS in content or CONFIG in content:
            given = _taken(message)
    except Refusal as error:
        fault = str(error)
    ours = content.config_records.get(OURS, ConfigRecord())
    return Asked(
        run=context.run_id,
        node=context.node_id,
        kind=kind,
        run_config=settings,
        records={name: type(record).__name__ for name, record in content.items()},
        fields={name: value if isinstance(value, bytes) else None for name, value in ours.items()},
        given=None if given is None else given.summary(),
        fault=fault,
    ), given


def _taken(message: Message) -> TrainInput:
    """Return a model and settings, or one of them, with arrays that can be read safely."""
    content = message.content
    arrays = content.array_records.get(ARRAYS, ArrayRecord())
    config = content.config_records.get(CONFIG, ConfigRecord())
    with faults_of_the_request():
        given = train_input(arrays, config, message.metadata.message_type)
        for array in given.arrays:
            array.checked()
    return given


def run_config_of(context: Context) -> dict[str, Setting]:
    """Return the run's settings, or refuse those that have no unique meaning."""
    with faults_of_the_request():
        return plain_settings(context.run_config)


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
        group_id=str(given.config.get(SERVER_ROUND, "")),
        created_at=time.time(),
        ttl=_TTL,
        message_type=given.message_type,
    )
    return make_message(metadata, content)


def clean_context(context: Context, *, stateful: bool = False) -> Context:
    """Return the context that a function of the app sees: the node's own settings, and those of the run that are its.

    The state is empty, unless the roster accepts that it differs between members.
    """
    shown = {name: value for name, value in run_config_of(context).items() if not name.startswith(SERVERS_OWN)}
    state = {name: copy.deepcopy(record) for name, record in context.state.items() if stateful and name not in _OWN}
    return Context(0, 0, dict(context.node_config), RecordDict(state), shown)  # type: ignore[arg-type]


def kept_state(context: Context, after: Context) -> RecordDict:
    """Return the state after a function of the app has changed its own part of it."""
    ours = {name: record for name, record in context.state.items() if name in _OWN}
    return RecordDict({name: record for name, record in after.state.items() if name not in _OWN} | ours)
