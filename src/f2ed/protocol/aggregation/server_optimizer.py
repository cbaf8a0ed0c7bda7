"""Server optimizers: from the robust mean of a round to the step of the model (Reddi et al., ICLR 2021).

The mean of the updates is the direction; an optimizer scales it, and may remember earlier ones. Settings are named as
in Flower's strategies, with the same defaults but for the momentum of FedAvgM; steps are equal up to rounding.

To add one, write a frozen struct and add it to `AnyServerOptimizer`.
"""

from abc import abstractmethod
from dataclasses import dataclass
from typing import Annotated, ClassVar, final

import msgspec

from f2ed.core.arrays import Array, namespace
from f2ed.core.errors import ConfigError
from f2ed.core.rate_schedules import AnyRateSchedule
from f2ed.core.settings import Settings

__all__ = [
    "AnyServerOptimizer",
    "FedAdagrad",
    "FedAdam",
    "FedAvg",
    "FedAvgM",
    "FedYogi",
    "OptimizerState",
    "ServerOptimizer",
]

Rate = Annotated[float, msgspec.Meta(gt=0)]
Decay = Annotated[float, msgspec.Meta(ge=0, lt=1)]
Memory = tuple[Array, ...]


@final
@dataclass(frozen=True, eq=False)
class OptimizerState:
    """What an optimizer remembers between rounds; empty before the first step."""

    kind: str = ""
    """Which optimizer it belongs to; empty where it remembers no vectors."""
    steps: int = 0
    """Steps taken so far; a skipped round is none."""
    memory: Memory = ()


class ServerOptimizer(
    Settings, frozen=True, kw_only=True, tag_field="kind", forbid_unknown_fields=True, repr_omit_defaults=True
):
    """Turns the mean of a round into the step of the model: a frozen value whose fields are its settings."""

    title: ClassVar[str]
    """What tables and figures call it."""
    paper: ClassVar[str]
    """Who proposed it, and when."""
    vectors: ClassVar[int] = 0
    """How many vectors of the model's size it remembers; they are zero before the first step."""

    lr_schedule: AnyRateSchedule | None = None
    """How the server's learning rate changes over the rounds; constant by default."""

    def __call__(self, mean: Array, state: OptimizerState, *, round_: int) -> tuple[Array, OptimizerState]:
        """Return the step [d] in a round, which counts from 0, and what to remember; nothing is changed in place."""
        kind = str(type(self).__struct_config__.tag) if self.vectors else ""
        if state.kind not in ("", kind):
            raise ConfigError(
                f"the checkpoint holds the state of the server optimizer {state.kind}, and this is "
                f"{type(self).__struct_config__.tag}; use the same one, or delete the checkpoint to start over"
            )
        if state.kind != kind:
            state = OptimizerState(kind)
        memory = state.memory or tuple(namespace(mean).zeros_like(mean) for _ in range(self.vectors))
        scale = 1.0 if self.lr_schedule is None else self.lr_schedule(round_)
        step, memory = self.move(mean, memory, scale=scale, steps=state.steps)
        return step, OptimizerState(kind, state.steps + 1, memory)

    @abstractmethod
    def move(self, mean: Array, memory: Memory, *, scale: float, steps: int) -> tuple[Array, Memory]:
        """Return the step and the new memory; `scale` multiplies the learning rate, `steps` were taken before."""


class FedAvg(ServerOptimizer, frozen=True, tag="fedavg"):
    """Move by the mean, times the learning rate."""

    title = "FedAvg"
    paper = "McMahan et al., AISTATS 2017"

    server_learning_rate: Rate = 1.0

    def move(self, mean: Array, memory: Memory, *, scale: float, steps: int) -> tuple[Array, Memory]:  # noqa: ARG002  every optimizer is called alike
        """Return the mean itself at a rate of 1."""
        rate = self.server_learning_rate * scale
        return (mean if rate == 1 else mean * rate), memory


class FedAvgM(ServerOptimizer, frozen=True, tag="fedavgm"):
    """Add up the means with momentum."""

    title = "FedAvgM"
    paper = "Hsu, Qi and Brown, 2019"
    vectors = 1

    server_learning_rate: Rate = 1.0
    server_momentum: Decay = 0.9

    def move(self, mean: Array, memory: Memory, *, scale: float, steps: int) -> tuple[Array, Memory]:  # noqa: ARG002  every optimizer is called alike
        """Return m ← server_momentum·m + mean, times the learning rate."""
        momentum = memory[0] * self.server_momentum + mean
        return momentum * (self.server_learning_rate * scale), (momentum,)


class FedAdagrad(ServerOptimizer, frozen=True, tag="fedadagrad"):
    """Divide each coordinate by the root of its squares so far."""

    title = "FedAdagrad"
    paper = "Reddi et al., ICLR 2021"
    vectors = 1

    eta: Rate = 1e-1
    """The server's learning rate."""
    tau: Rate = 1e-3
    """How much adapts: coordinates far below it are scaled alike."""

    def move(self, mean: Array, memory: Memory, *, scale: float, steps: int) -> tuple[Array, Memory]:  # noqa: ARG002  every optimizer is called alike
        """Add up the squares."""
        squares = memory[0] + mean * mean
        return _divided(mean * (self.eta * scale), squares, self.tau), (squares,)


class FedAdam(ServerOptimizer, frozen=True, tag="fedadam"):
    """Divide the average of the means by the root of the average of their squares, in each coordinate.

    As in Flower, the learning rate corrects for the bias of the first averages, with an exponent of steps + 2.
    """

    title = "FedAdam"
    paper = "Reddi et al., ICLR 2021"
    vectors = 2

    eta: Rate = 1e-1
    """The server's learning rate."""
    beta_1: Decay = 0.9
    beta_2: Decay = 0.99
    tau: Rate = 1e-3
    """How much adapts: coordinates far below it are scaled alike."""

    def move(self, mean: Array, memory: Memory, *, scale: float, steps: int) -> tuple[Array, Memory]:
        """Average means and squares."""
        average = memory[0] * self.beta_1 + mean * (1 - self.beta_1)
        squares = memory[1] * self.beta_2 + mean * mean * (1 - self.beta_2)
        corrected = self.eta * (1 - self.beta_2 ** (steps + 2)) ** 0.5 / (1 - self.beta_1 ** (steps + 2))
        return _divided(average * (corrected * scale), squares, self.tau), (average, squares)


class FedYogi(ServerOptimizer, frozen=True, tag="fedyogi"):
    """As FedAdam, but the squares grow and fall by at most (1 - beta_2) of a new one, which is steadier."""

    title = "FedYogi"
    paper = "Reddi et al., ICLR 2021"
    vectors = 2

    eta: Rate = 1e-2
    """The server's learning rate."""
    beta_1: Decay = 0.9
    beta_2: Decay = 0.99
    tau: Rate = 1e-3
    """How much adapts: coordinates far below it are scaled alike."""

    def move(self, mean: Array, memory: Memory, *, scale: float, steps: int) -> tuple[Array, Memory]:  # noqa: ARG002  every optimizer is called alike
        """Average the means, and move the squares toward the new ones."""
        average = memory[0] * self.beta_1 + mean * (1 - self.beta_1)
        square = mean * mean
        squares = memory[1] - square * namespace(mean).sign(memory[1] - square) * (1 - self.beta_2)
        return _divided(average * (self.eta * scale), squares, self.tau), (average, squares)


def _divided(direction: Array, squares: Array, tau: float) -> Array:
    return direction / (namespace(squares).sqrt(squares) + tau)


AnyServerOptimizer = FedAvg | FedAvgM | FedAdagrad | FedAdam | FedYogi
