"""One server step for every driver: from the opened rows to the step of the model, with the state it carries over."""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Literal, NamedTuple, final

import msgspec
import numpy as np

from f2ed.core.arrays import Array, namespace
from f2ed.core.errors import ConfigError
from f2ed.core.randomness import stream
from f2ed.estimators import Estimate, Estimator

__all__ = ["ServerStep", "StepResult", "StepState"]


class _Stored(msgspec.Struct, frozen=True, array_like=True):
    """The previous step as bytes, little-endian; no dtype before the first step."""

    dtype: Literal["<f4", "<f8"] | None = None
    data: bytes = b""


@final
@dataclass(frozen=True, eq=False)
class StepState:
    """What the next step needs from the last one; empty before the first."""

    previous: Array | None = None
    """The last step taken, [d], which some estimators start from. A skipped round keeps it."""

    def to_bytes(self) -> bytes:
        """Return the state to the last bit."""
        if self.previous is None:
            return msgspec.msgpack.encode(_Stored())
        host = self.previous if isinstance(self.previous, np.ndarray) else self.previous.detach().cpu().numpy()
        dtype: Literal["<f4", "<f8"] = "<f4" if host.dtype == np.float32 else "<f8"
        return msgspec.msgpack.encode(_Stored(dtype, host.astype(dtype, copy=False).tobytes()))

    @classmethod
    def from_bytes(cls, content: bytes) -> "StepState":
        """Return the state again, in NumPy; raise `ConfigError` if it is not one."""
        try:
            stored = msgspec.msgpack.decode(content, type=_Stored)
            previous = None if stored.dtype is None else np.frombuffer(stored.data, stored.dtype)
        except (msgspec.DecodeError, ValueError) as wrong:
            raise ConfigError(
                f"not the state of a server step ({wrong}); delete the checkpoint to start over"
            ) from None
        # A copy in native byte order that torch may share.
        return cls(None if previous is None else previous.astype(previous.dtype.newbyteorder("=")))


class StepResult(NamedTuple):
    """The outcome of one round at the server: an estimate, or the reason why the model stays as it is."""

    estimate: Estimate | None
    skipped: str | None
    state: StepState


@final
@dataclass(frozen=True)
class ServerStep:
    """Applies an estimator to the rows that a round opened.

    Simulation and deployment share it, so the same rows, state, seed and round give the same bits in both.
    """

    estimator: Estimator
    _: KW_ONLY
    tensors: Sequence[int]
    """The sizes of the model's parameter tensors, for estimators that treat each separately."""
    min_rows: int = 1
    """With fewer rows the round is skipped."""
    seed: int = 0
    """Estimators that draw at random draw from a stream of this seed and the round."""

    def __call__(self, rows: Array, state: StepState, *, round_: int) -> StepResult:
        """Estimate the mean of the honest rows [n, d]; skip the round where there are too few for it."""
        if not len(rows):
            return StepResult(None, "nothing was opened", state)
        if len(rows) < self.min_rows:
            return StepResult(None, f"{len(rows)} rows opened, at least {self.min_rows} are required", state)
        previous = _alongside(rows, state.previous)
        rng = stream(self.seed, "estimator", round_)
        try:
            estimate = self.estimator(rows, previous=previous, tensors=self.tensors, rng=rng)
        except ConfigError as error:
            return StepResult(None, f"the estimator cannot use {len(rows)} rows: {error}", state)
        return StepResult(estimate, None, StepState(estimate.mean))


def _alongside(rows: Array, previous: Array | None) -> Array | None:
    """Return the previous step where the rows are: on their GPU, or in the host's memory."""
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
