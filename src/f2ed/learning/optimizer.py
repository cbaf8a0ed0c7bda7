"""Training settings, and one optimizer step on flat vectors: one `[d]` or many `[n, d]` at once.

The steps equal those of `torch.optim.SGD` and `torch.optim.Adam`. They work in place and never use the `alpha` of
`add_`, which `torch.compile` has been seen to drop.
"""

from typing import Annotated, Literal

import msgspec
import torch
from torch import Tensor

from f2ed.core.errors import SettingError
from f2ed.core.rate_schedules import AnyRateSchedule
from f2ed.core.settings import Settings

__all__ = ["Training", "begin", "step"]

Rate = Annotated[float, msgspec.Meta(gt=0, le=1e6)]
Count = Annotated[int, msgspec.Meta(ge=1)]
Share = Annotated[float, msgspec.Meta(ge=0, lt=1)]

_BETAS = (0.9, 0.999)
_TINY = 1e-8


class Training(Settings, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a client trains: `local_epochs` passes over its data in batches of `batch_size`; the last may be smaller.

    The defaults are the paper's. `momentum` is that of local SGD; Adam uses its usual constants.
    """

    lr: Rate = 1e-3
    batch_size: Count = 10
    local_epochs: Count = 1
    optimizer: Literal["sgd", "adam"] = "sgd"
    momentum: Share = 0.0
    weight_decay: Annotated[float, msgspec.Meta(ge=0, le=1e6)] = 0.0
    proximal: Rate | None = None
    """FedProx (Li et al. 2020): adds this much times half the squared distance from the global model to the loss."""
    lr_schedule: AnyRateSchedule | None = None
    """How the learning rate changes over the rounds; constant by default."""

    def at(self, round_: int) -> "Training":
        """Return the settings of a round, which counts from 0: without a schedule, at its learning rate."""
        if self.lr_schedule is None:
            return self
        return msgspec.structs.replace(self, lr=self.lr * self.lr_schedule(round_), lr_schedule=None)

    precision: Literal["tf32", "bf16"] | None = None
    """Allow a GPU to multiply in TF32 or, with float32 weights, in bfloat16: several times faster; float32 without."""

    def __post_init__(self) -> None:
        """Check every field, and refuse a setting that would have no effect."""
        super().__post_init__()
        if self.optimizer == "adam" and self.momentum:
            raise SettingError(
                "momentum is a setting of SGD, and the optimizer is adam; leave momentum out, or use sgd"
            )


def begin(training: Training, weights: Tensor) -> tuple[Tensor, ...]:
    """Return the optimizer's state before the first step for weights `[d]` or `[n, d]`."""
    if training.optimizer == "adam":
        return torch.zeros_like(weights), torch.zeros_like(weights), torch.zeros_like(weights[..., :1])
    return (torch.zeros_like(weights),) if training.momentum else ()


def step(training: Training, weights: Tensor, gradient: Tensor, state: tuple[Tensor, ...]) -> None:
    """Move the weights one step, in place; the gradient is overwritten."""
    if training.weight_decay:
        gradient.add_(weights * training.weight_decay)
    if training.optimizer == "adam":
        _adam(training.lr, weights, gradient, *state)
    elif state:
        (momentum,) = state
        momentum.mul_(training.momentum).add_(gradient)
        weights.sub_(momentum * training.lr)
    else:
        weights.sub_(gradient.mul_(training.lr))


def _adam(lr: float, weights: Tensor, gradient: Tensor, mean: Tensor, square: Tensor, count: Tensor) -> None:
    first, second = _BETAS
    count.add_(1)
    mean.mul_(first).add_(gradient * (1 - first))
    square.mul_(second).add_(gradient.square_().mul_(1 - second))
    scale = torch.sqrt(square / (1 - second**count)).add_(_TINY)
    weights.sub_(mean / (1 - first**count) / scale * lr)
