"""A recurrent network for sequences of characters (Hochreiter and Schmidhuber 1997): scores for the next one."""

from typing import Annotated

import msgspec
import torch
from torch import Tensor, nn

from f2ed.core.errors import ConfigError
from f2ed.learning.models.base import Model

__all__ = ["Lstm"]

Count = Annotated[int, msgspec.Meta(ge=1)]


class Lstm(Model, frozen=True, tag="lstm"):
    """Embedded tokens `[b, t]`, LSTM layers, and at each position a score for every token, for the loss next-token."""

    embedding: Count = 8
    hidden: Count = 128
    layers: Count = 1

    def build(self, shape: tuple[int, ...], classes: int) -> nn.Module:
        """Build the module."""
        if len(shape) != 1:
            raise ConfigError(f"samples of shape {shape}; an LSTM needs sequences of tokens, (length,)")
        sizes = [self.embedding] + [self.hidden] * self.layers
        return nn.Sequential(
            nn.Embedding(classes, self.embedding),
            *(_Layer(inputs, self.hidden) for inputs in sizes[:-1]),
            nn.Linear(self.hidden, classes),
        )


class _Layer(nn.Module):
    """One layer, step by step: fused implementations cannot be trained for many clients at once."""

    def __init__(self, inputs: int, hidden: int) -> None:
        super().__init__()
        self.hidden = hidden
        self.by_input = nn.Linear(inputs, 4 * hidden)
        self.by_state = nn.Linear(hidden, 4 * hidden, bias=False)

    def forward(self, sequence: Tensor) -> Tensor:
        """Return the state after each position, `[b, t, hidden]`."""
        gates = self.by_input(sequence)
        state = memory = gates.new_zeros(gates.shape[0], self.hidden)
        states = []
        for at in range(sequence.shape[1]):
            now = gates[:, at] + self.by_state(state)
            enter, keep, leave = now[:, : 3 * self.hidden].sigmoid().chunk(3, 1)
            memory = keep * memory + enter * now[:, 3 * self.hidden :].tanh()
            state = leave * memory.tanh()
            states.append(state)
        return torch.stack(states, 1)
