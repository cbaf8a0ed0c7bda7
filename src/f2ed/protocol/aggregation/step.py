"""One server step for every driver: from the opened rows to the step of the model, with the state it carries over."""

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import partial
from itertools import accumulate
from math import isfinite
from typing import Any, Literal, NamedTuple, final

import msgspec
import numpy as np
import numpy.typing as npt

from f2ed.core.arrays import Array, as_matrix, namespace
from f2ed.core.errors import ConfigError, PluginError
from f2ed.core.msgpack_parts import Buffer, parts
from f2ed.core.randomness import stream
from f2ed.estimators import Estimate, Estimator
from f2ed.protocol.aggregation.server_optimizer import FedAvg, OptimizerState, ServerOptimizer

__all__ = ["ServerStep", "StepResult", "StepState"]


_AVERAGE = FedAvg()
_NOTHING = OptimizerState()


class _Vector(msgspec.Struct, frozen=True, array_like=True):
    """A vector as bytes, little-endian; no dtype where there is none."""

    dtype: Literal["<f4", "<f8"] | None = None
    data: bytes = b""


class _Stored(_Vector, frozen=True, array_like=True):
    """The previous step, then the optimizer's state and the rows' reputation, which older checkpoints do not have."""

    kind: str = ""
    steps: int = 0
    memory: tuple[_Vector, ...] = ()
    reputation: dict[str, float] = {}


@final
@dataclass(frozen=True, eq=False)
class StepState:
    """What the next step needs from the last one; empty before the first."""

    previous: Array | None = None
    """The last mean, [d], for estimators that read it; else None. A skipped round keeps it."""
    optimizer: OptimizerState = _NOTHING
    """What the server optimizer remembers."""
    reputation: Mapping[str, float] = field(default_factory=dict)
    """What an estimator with a memory knows of each row, by the row's name. Rows that are absent keep theirs."""

    def to_bytes(self) -> bytes:
        """Return the state to the last bit."""
        return b"".join(self.to_parts())

    def to_parts(self) -> tuple[Buffer, ...]:
        """Return the state to the last bit as buffers to be put together; vectors in memory are not copied."""
        state = self.optimizer
        memory = tuple(map(_packed, state.memory))
        return tuple(parts((*_packed(self.previous), state.kind, state.steps, memory, dict(self.reputation))))

    @classmethod
    def from_bytes(cls, content: bytes) -> "StepState":
        """Return the state again, in NumPy; raise `ConfigError` if it is not one."""
        try:
            stored = msgspec.msgpack.decode(content, type=_Stored)
            memory = tuple(map(_unpacked, stored.memory))
            previous = None if stored.dtype is None else _unpacked(stored)
            return cls(previous, OptimizerState(stored.kind, stored.steps, memory), stored.reputation)
        except (msgspec.DecodeError, ValueError) as wrong:
            raise ConfigError(
                f"not the state of a server step ({wrong}); delete the checkpoint to start over"
            ) from None


def _packed(vector: Array | None) -> tuple[Literal["<f4", "<f8"] | None, Buffer]:
    """Return the fields of a `_Vector`."""
    if vector is None:
        return None, b""
    host = vector if isinstance(vector, np.ndarray) else vector.detach().cpu().numpy()
    dtype: Literal["<f4", "<f8"] = "<f4" if host.dtype == np.float32 else "<f8"
    return dtype, np.ascontiguousarray(host, dtype).data


def _unpacked(stored: _Vector) -> Array:
    if stored.dtype is None:
        raise ValueError("a vector is missing")
    found = np.frombuffer(stored.data, stored.dtype)
    # A copy in native byte order that torch may share.
    return found.astype(found.dtype.newbyteorder("="))


class StepResult(NamedTuple):
    """The outcome of one round at the server: an estimate, or the reason why the model stays as it is."""

    estimate: Estimate | None
    skipped: str | None
    state: StepState
    step: Array | None = None
    """The change of the model, [d]: the mean, unless the server optimizer makes another step of it."""


@final
@dataclass(frozen=True)
class ServerStep:
    """Applies an estimator to the rows that a round opened, and a server optimizer to their mean.

    Simulation and deployment share it, so the same rows, state, seed and round give the same bits in both.
    """

    estimator: Estimator
    _: KW_ONLY
    optimizer: ServerOptimizer = _AVERAGE
    """What makes a step of the mean; by default the mean is the step."""
    tensors: Sequence[int]
    """The sizes of the model's parameter tensors, for estimators that treat each separately."""
    min_rows: int = 1
    """With fewer rows the round is skipped."""
    seed: int = 0
    """Estimators that draw at random draw from a stream of this seed and the round."""
    trained: int | None = None
    """The number of leading coordinates that are trained; the rest are buffers. By default all are trained."""

    def __call__(
        self,
        rows: Array,
        state: StepState,
        *,
        round_: int,
        weights: Sequence[float] | None = None,
        names: Sequence[str] = (),
        root: Array | None = None,
    ) -> StepResult:
        """Estimate the mean of the honest rows [n, d]; skip the round where there are too few for it.

        `weights` say how much each row counts; without them all count the same. `names` tell over the rounds which row
        is which, for estimators with a memory; `root` is a trusted update [d], for estimators that use one.
        """
        if not len(rows):
            return StepResult(None, "nothing was opened", state)
        if len(rows) < self.min_rows:
            return StepResult(None, f"{len(rows)} rows opened, at least {self.min_rows} are required", state)
        if names and len(names) != len(rows):
            raise ConfigError(f"{len(rows)} rows have {len(names)} names; give one to each")
        width, end = rows.shape[1], self._end(rows.shape[1])
        first = [size for size, stop in zip(self.tensors, accumulate(self.tensors), strict=True) if stop <= end]
        vectors = {"previous": _alongside(rows, state.previous), "root": _alongside(rows, root)}
        known = {"reputation": _remembered(state.reputation, names), "weights": weights}
        use = partial(self._estimated, rows, vectors, known)
        try:
            estimate = use(slice(0, end), first, stream(self.seed, "estimator", round_))
            if end < width:
                others = use(slice(end, width), self.tensors[len(first) :], stream(self.seed, "buffers", round_))
                estimate = replace(estimate, mean=namespace(rows).concatenate((estimate.mean, others.mean)))
        except PluginError:
            raise
        except ConfigError as error:
            return StepResult(None, f"the estimator cannot use {len(rows)} rows: {error}", state)
        return self._moved(estimate, state, rows, round_, names)

    def from_estimate(
        self, estimate: Estimate | None, state: StepState, *, round_: int, skipped: str | None = None
    ) -> StepResult:
        """Make a step of a mean that somebody else has estimated; without one the round is skipped."""
        if estimate is None:
            return StepResult(None, skipped or "nothing was opened", state)
        return self._moved(estimate, state, estimate.mean[None], round_, ())

    def _moved(
        self, estimate: Estimate, state: StepState, rows: Array, round_: int, names: Sequence[str]
    ) -> StepResult:
        end = self._end(rows.shape[1])
        # A tensor on the CPU is viewed as NumPy, so that both give the same bits.
        (mean,), restore = as_matrix(estimate.mean[None, :end])
        memory = tuple(_like(mean, _alongside(rows[:, :end], vector)) for vector in state.optimizer.memory)
        made, after = self.optimizer(mean, replace(state.optimizer, memory=memory), round_=round_)
        step = restore(made)
        if end < rows.shape[1]:  # Buffers are averages: an optimizer that adds them up over rounds would spoil them.
            step = namespace(rows).concatenate((step, estimate.mean[end:]))
        if not _is_finite(step):
            who = (
                "the server optimizer's step"
                if _is_finite(estimate.mean)
                else f"the mean of {type(self.estimator).__name__}"
            )
            return StepResult(None, f"{who} is not a finite number in every coordinate", state)
        reputation = dict(state.reputation)
        if estimate.reputation is not None:
            reputation |= zip(names, map(float, estimate.reputation), strict=False)
        previous = estimate.mean if self.estimator.needs_previous() else None
        return StepResult(estimate, None, StepState(previous, after, reputation), step)

    def _end(self, width: int) -> int:
        """Return where the trained coordinates end."""
        return width if self.trained is None else self.trained

    def _estimated(
        self,
        rows: Array,
        vectors: Mapping[str, Array | None],
        known: Mapping[str, Any],
        part: slice,
        tensors: Sequence[int],
        rng: np.random.Generator,
    ) -> Estimate:
        """Estimate some columns on their own."""
        mine = {name: None if vector is None else vector[part] for name, vector in vectors.items()}
        return self.estimator(rows[:, part], **mine, **known, tensors=tensors, rng=rng)


def _remembered(reputation: Mapping[str, float], names: Sequence[str]) -> npt.NDArray[np.float64] | None:
    """Return the reputation of the rows, 1 for those that are new; None where rows have no names."""
    if not names:
        return None
    return np.array([reputation.get(name, 1.0) for name in names])


def _alongside(rows: Array, previous: Array | None) -> Array | None:
    """Return a vector of an earlier round where the rows are: on their GPU, or in the host's memory."""
    if previous is None:
        return None
    if len(previous) != rows.shape[1]:
        raise ConfigError(
            f"the previous step has {len(previous)} coordinates, and the rows have {rows.shape[1]}; "
            "it belongs to another model: delete the checkpoint to start over"
        )
    if getattr(rows, "is_cuda", False):
        return namespace(rows).as_tensor(previous, device=rows.device)
    return previous.cpu() if getattr(previous, "is_cuda", False) else previous


def _is_finite(vector: Array) -> bool:
    """Return whether all coordinates are finite; a sum in float64 takes no memory, and cannot overflow."""
    return isfinite(float(vector.sum(dtype=namespace(vector).float64)))


def _like(mean: Array, vector: Array) -> Array:
    """Return a vector in the library of the mean."""
    return np.asarray(vector) if isinstance(mean, np.ndarray) else vector
