"""A strategy of Flower's, or your own, inside of `F2ed`: it gets the robust mean as the only client's reply.

Whatever such a strategy does with the replies of clients it does with one, so its server optimizer works as before,
while its sampling, weighting and robust rules have nothing left to do and are refused by name.
"""

import time
from collections.abc import Collection, Iterable, Mapping
from types import SimpleNamespace
from typing import Any, Literal, final

import msgspec
import numpy as np
import numpy.typing as npt
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, Metadata, MetricRecord, RecordDict
from flwr.app.message import make_message
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Strategy

from f2ed.core.errors import ConfigError
from f2ed.flower.wire import ARRAYS

__all__ = ["WEIGHTED_BY", "Inner", "as_model", "mean_reply"]

WEIGHTED_BY = "num-examples"
"""By which Flower's strategies weight replies."""
_OVER_ONE = {"FedMedian", "FedTrimmedAvg", "Krum", "MultiKrum", "Bulyan", "QFedAvg", "FedXgbBagging", "FedXgbCyclic"}
"""Strategies of Flower's that are rules over many clients, or over something else than arrays."""
_DP = "DifferentialPrivacy"
_LEAST = ("min_train_nodes", "min_available_nodes")

Values = npt.NDArray[Any]


class _StoredArray(msgspec.Struct, frozen=True, array_like=True):
    dtype: str
    shape: tuple[int, ...]
    data: bytes


class _Stored(msgspec.Struct, frozen=True):
    kind: str
    lists: dict[str, list[_StoredArray]] = {}
    mappings: dict[str, dict[str, _StoredArray]] = {}
    records: dict[str, dict[str, _StoredArray]] = {}


@final
class Inner:
    """A strategy that F2ed calls, and the arrays that it keeps between rounds."""

    def __init__(self, strategy: Strategy, *, clients: int) -> None:
        if not isinstance(strategy, Strategy):
            raise ConfigError(
                f"inner is a {type(strategy).__name__}; give a strategy of flwr.serverapp.strategy, such as "
                "FedAdam(eta=0.01). Those of flwr.server are Flower's older ones"
            )
        self.strategy = strategy
        self._check(clients)
        self._grid = _StandIn(max(clients, *(int(getattr(strategy, name, 0)) for name in _LEAST)))

    def configure_train(self, round_: int, arrays: ArrayRecord, config: ConfigRecord) -> list[Message]:
        """Return what it would send; it sees a grid on which everyone is there."""
        return list(self.strategy.configure_train(round_, arrays, config, self._grid))

    @property
    def weighted_by(self) -> str:
        """The metric by which it weights replies."""
        return str(getattr(self.strategy, "weighted_by_key", WEIGHTED_BY))

    def to_bytes(self) -> bytes:
        """Return all arrays among its attributes; numbers, names and functions are the caller's to give again."""
        lists, mappings, records = {}, {}, {}
        for name, value in vars(self.strategy).items():
            if isinstance(value, ArrayRecord):
                records[name] = {key: _stored(each.numpy()) for key, each in value.items()}
            elif isinstance(value, list) and value and all(isinstance(each, np.ndarray) for each in value):
                lists[name] = [_stored(each) for each in value]
            elif isinstance(value, dict) and value and all(isinstance(each, np.ndarray) for each in value.values()):
                mappings[name] = {str(key): _stored(each) for key, each in value.items()}
        return msgspec.msgpack.encode(_Stored(type(self.strategy).__name__, lists, mappings, records))

    def resume(self, content: bytes) -> None:
        """Give the strategy the arrays that it had when a checkpoint was made."""
        kind = type(self.strategy).__name__
        try:
            stored = msgspec.msgpack.decode(content, type=_Stored) if content else _Stored("none")
        except ValueError as error:
            raise ConfigError(f"the checkpoint's inner strategy cannot be read ({error}); start over") from None
        if stored.kind != kind:
            raise ConfigError(
                f"the checkpoint was made with the inner strategy {stored.kind}, and this is {kind}; use the same one, "
                "or name another checkpoint"
            )
        for name, some in stored.lists.items():
            setattr(self.strategy, name, [_array(each) for each in some])
        for name, each in stored.mappings.items():
            setattr(self.strategy, name, {key: _array(value) for key, value in each.items()})
        for name, each in stored.records.items():
            setattr(self.strategy, name, ArrayRecord({key: Array(_array(value)) for key, value in each.items()}))

    def _check(self, clients: int) -> None:
        kind = type(self.strategy).__name__
        if kind in _OVER_ONE:
            raise ConfigError(
                f"inner={kind}: it chooses among the updates of single clients, which nobody sees here; give an "
                "estimator instead, such as estimator=FilterL2(contamination=0.1)"
            )
        if kind.startswith(_DP):
            raise ConfigError(
                f"inner={kind}: it adds noise where single updates are seen; sign the roster with --noise-multiplier "
                "instead, and every node adds its part"
            )
        fraction = getattr(self.strategy, "fraction_train", 1.0)
        if fraction != 1.0:
            raise ConfigError(
                f"inner={kind} with fraction_train={fraction}: who takes part in a round is the roster's, so that the "
                "server cannot choose; leave it at 1.0"
            )
        if most := [name for name in _LEAST if int(getattr(self.strategy, name, 0)) > clients]:
            raise ConfigError(
                f"inner={kind} with {most[0]}={getattr(self.strategy, most[0])}, and the roster has {clients} clients; "
                "leave it out: F2ed waits for as many as a round needs (min_shards)"
            )


class _StandIn(Grid):
    """The grid that an inner strategy samples from: it sends nothing, and everyone is there."""

    def __init__(self, nodes: int) -> None:
        self._nodes = nodes

    def set_run(self, run: Any) -> None:
        """There is no run."""

    @property
    def run(self) -> Any:
        """There is no run."""
        return SimpleNamespace(run_id=0)

    def get_node_ids(self) -> Iterable[int]:
        """Return numbers that stand for nodes."""
        return range(1, self._nodes + 1)

    def create_message(self, *args: Any, **kwargs: Any) -> Message:
        """Refuse to send."""
        raise _only_sends((args, kwargs))

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        """Refuse to send."""
        raise _only_sends(messages)

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        """Refuse to receive."""
        raise _only_sends(message_ids)

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> Iterable[Message]:
        """Refuse to send."""
        raise _only_sends((messages, timeout))


def _only_sends(_what: object) -> ConfigError:
    return ConfigError("the inner strategy sends messages of its own; under masks F2ed alone talks to the clients")


def mean_reply(arrays: ArrayRecord, metrics: Mapping[str, int | float], *, round_: int) -> Message:
    """Return the reply of the one client that a strategy is shown: the model after the robust mean."""
    content = RecordDict({ARRAYS: arrays, "metrics": MetricRecord(dict(metrics))})
    return make_message(Metadata(0, "", 0, 0, "", str(round_), time.time(), 1.0, "train"), content)


def as_model(
    returned: ArrayRecord | None, reply: ArrayRecord, before: ArrayRecord, *, trained: Collection[str]
) -> ArrayRecord:
    """Return the model that a strategy made of the reply, in the types of the model before; None leaves it unchanged.

    Arrays that are not trained (integers and buffers) are as in the reply.
    """
    if returned is None:
        return before
    if returned is reply:
        return reply
    if set(returned) != set(before):
        wrong = min(set(returned) ^ set(before))
        raise ConfigError(f"aggregate_train returned other arrays than the model has ({wrong!r}); return all of them")
    return ArrayRecord(
        {name: _like(name, returned[name], before[name]) if name in trained else reply[name] for name in before}
    )


def _like(name: str, found: Array, before: Array) -> Array:
    values, wanted = found.numpy(), before.numpy()
    if values.shape != wanted.shape:
        raise ConfigError(f"aggregate_train returned {name!r} with shape {values.shape}; the model has {wanted.shape}")
    if not np.isfinite(values).all():
        raise ConfigError(f"aggregate_train returned {name!r} with values that are NaN or infinite; lower its rate")
    return Array(np.asarray(values, wanted.dtype))


def _stored(values: Values) -> _StoredArray:
    kind: Literal["="] = "="
    return _StoredArray(values.dtype.newbyteorder(kind).str, values.shape, np.ascontiguousarray(values).tobytes())


def _array(stored: _StoredArray) -> Values:
    return np.frombuffer(stored.data, np.dtype(stored.dtype)).reshape(stored.shape).copy()
