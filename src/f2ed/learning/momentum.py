"""Client momentum (Karimireddy, He and Jaggi 2021): a client sends the average of its updates over time.

Averaging over time reduces the variance among honest clients, in which attackers hide.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import msgspec
import torch
from torch import Tensor

from f2ed.core.errors import ConfigError
from f2ed.core.settings import Settings

__all__ = ["ClientMomentum", "MomentumState"]


@dataclass(frozen=True, eq=False)
class MomentumState:
    """What each client sent last, `[clients, d]`, and which of them have sent anything yet."""

    averages: Tensor
    seen: Tensor

    @classmethod
    def empty(cls, clients: int, dimension: int, device: str | torch.device = "cpu") -> "MomentumState":
        """Return the state before the first round."""
        return cls(
            torch.zeros(clients, dimension, device=device), torch.zeros(clients, dtype=torch.bool, device=device)
        )


class ClientMomentum(Settings, frozen=True, forbid_unknown_fields=True):
    """Send m ← beta·m + (1 - beta)·update; the first time, the update itself."""

    beta: Annotated[float, msgspec.Meta(ge=0, lt=1)] = 0.9

    def __call__(self, updates: Tensor, clients: Sequence[int], state: MomentumState) -> tuple[Tensor, MomentumState]:
        """Return what the clients send for their updates, and the new state; the given one is not changed."""
        if len(updates) != len(clients):
            raise ConfigError(f"found {len(updates)} updates for {len(clients)} clients; give one per client")
        rows = torch.as_tensor(list(clients), device=updates.device)
        beta = self.beta * state.seen[rows].to(updates.dtype).unsqueeze(1)
        sent = beta * state.averages[rows] + (1 - beta) * updates
        return sent, MomentumState(state.averages.index_copy(0, rows, sent), state.seen.index_fill(0, rows, value=True))
