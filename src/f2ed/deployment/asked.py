"""What passes between the process that runs an app and the holder of the node's key, in the same process or another.

The app's side describes a message that the node received; the key's side refuses it, answers it, or asks for the update
first. Data of arrays stays with the app: a digest is enough to check and to bind it.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Annotated, Any, TypeAlias, final

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec import Meta

from f2ed.core.errors import ConfigError, Refusal
from f2ed.deployment.masked_metrics import MetricRule
from f2ed.deployment.train_input import InputSummary
from f2ed.deployment.training_rules import EVALUATE
from f2ed.protocol.aggregation import Buffers

__all__ = [
    "ARRAYS",
    "CONFIG",
    "OURS",
    "Asked",
    "Need",
    "Reply",
    "Train",
    "Vector",
    "faults_of_the_request",
    "whole_update",
]

OURS = "f2ed"
ARRAYS = "arrays"
CONFIG = "config"
_CONFIG_RECORD = "ConfigRecord"
_KINDS = {ARRAYS: "ArrayRecord", CONFIG: _CONFIG_RECORD}
_FIELDS = {"hello", "request", "model"}

Vector: TypeAlias = npt.NDArray[np.floating[Any]]
Number = Annotated[int, Meta(ge=0)]


@final
class Asked(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="asked"):
    """A message, as it reached the app's process."""

    run: Number
    node: Number
    """Flower's number of this node."""
    kind: str
    """The message's type, with the action where there is one."""
    run_config: dict[str, Any]
    records: dict[str, str]
    """The kind of each record, by its name."""
    fields: dict[str, bytes | None]
    """The protocol's own record; None for what is not bytes."""
    given: InputSummary | None = None
    """What a function of the app would be given, where the message holds anything for one."""
    fault: str = ""
    """Why the app's side cannot use the message, or could not answer it."""

    def check_step(self, *, update: bool) -> None:
        """Refuse other records than those of a protocol step, which asks for an update or does not."""
        self._check_records({OURS: _CONFIG_RECORD} | (_KINDS if update else {}))

    def check_passed(self) -> None:
        """Refuse other records than a model and settings, for a message outside of the protocol."""
        self._check_records({name: kind for name, kind in _KINDS.items() if name in self.records})

    def protocol_bytes(self, name: str) -> bytes:
        """Return a field of the protocol's record, or refuse a message without it."""
        value = self.fields.get(name)
        if value is None:
            raise Refusal(f"a request without {name!r}; server and client may have different versions of f2ed")
        return value

    @property
    def in_protocol(self) -> bool:
        """Whether it holds the protocol's record."""
        return self.records.get(OURS) == _CONFIG_RECORD

    @property
    def evaluates_masked(self) -> bool:
        """Whether it is a step of an evaluation whose metrics are summed under masks."""
        return self.kind == EVALUATE and self.in_protocol

    def _check_records(self, expected: Mapping[str, str]) -> None:
        for name, kind in self.records.items():
            if kind != expected.get(name):
                raise Refusal(
                    f"the request holds a {kind} {name[:80]!r} that the strategy does not send at this "
                    "step; what is not bound to the masks is not handed over"
                )
        if missing := [name for name in expected if name not in self.records]:
            raise Refusal(
                f"the request lacks the record {missing[0]!r}; server and client may have different versions of f2ed"
            )
        if extra := set(self.fields) - _FIELDS:
            raise Refusal(f"the protocol's record holds a field {min(extra)[:80]!r} that this client does not know")


@final
class Need(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="need"):
    """All checks passed: train, and hand over the update."""

    stateful: bool
    """Whether the roster accepts that the app keeps a state of its own."""
    buffers: Buffers | None = None
    """The roster's rules for buffers: which arrays make up the update, and which stay here."""
    metrics: tuple[MetricRule, ...] = ()
    """What to measure in place of training, in this order; empty where an update is wanted."""

    @property
    def keeps_buffers(self) -> bool:
        """Whether the node goes on with buffers of its own."""
        return self.buffers is not None and self.buffers.policy == "local"


@final
class Reply(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="reply"):
    """What the server gets."""

    reply: bytes = b""
    """The protocol's bytes; empty for a message outside of the protocol, which the app may answer."""
    line: bytes = b""
    """The newest line of the node's log."""
    refused: str = ""
    """The reason, where the node itself refused."""
    stateful: bool = False
    """As in `Need`."""
    buffers: Buffers | None = None
    """As in `Need`."""


Train: TypeAlias = Callable[[Need], Vector]
"""Returns the update; whatever it raises, but `GoneError`, counts as a training that failed."""


def whole_update(change: Vector, coordinates: int) -> Vector:
    """Return an update as the app handed it over; raise `ConfigError` for one of another length."""
    if change.shape != (coordinates,):
        raise ConfigError(f"the trained update has shape {change.shape}; the model has {coordinates} coordinates")
    return change


@contextmanager
def faults_of_the_request() -> Iterator[None]:
    """Turn errors about what the server sent into refusals: they say nothing about this node, and may be sent."""
    try:
        yield
    except ConfigError as error:
        raise Refusal(str(error)) from None
