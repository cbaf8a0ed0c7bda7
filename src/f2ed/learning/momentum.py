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
    """What each client sent last, `[known, d]`; clients that have sent nothing yet take no memory."""

    averages: Tensor
    clients: tuple[int, ...] = ()
    """Whose rows these are."""

    @classmethod
    def empty(cls, dimension: int, device: str | torch.device = "cpu") -> "MomentumState":
        """Return the state before the first round."""
        return cls(torch.zeros(0, dimension, device=device))


class ClientMomentum(Settings, frozen=True, forbid_unknown_fields=True):
    """Send m ← beta·m + (1 - beta)·update; the first time, the update itself."""

    beta: Annotated[float, msgspec.Meta(ge=0, lt=1)] = 0.9

    def __call__(self, updates: Tensor, clients: Sequence[int], state: MomentumState) -> tuple[Tensor, MomentumState]:
        """Return what the clients send for their updates, and the new state; the given one is not changed."""
        if len(updates) != len(clients):
            raise ConfigError(f"found {len(updates)} updates for {len(clients)} clients; give one per client")
        place = {client: row for row, client in enumerate(state.clients)}
        new = [client for client in clients if client not in place]
        known = (*state.clients, *new)
        place |= {client: len(state.clients) + row for row, client in enumerate(new)}
        averages = torch.cat([state.averages, updates.new_zeros(len(new), updates.shape[1])])
        rows = torch.as_tensor([place[client] for client in clients], device=updates.device)
        seen = (rows < len(state.clients)).to(updates.dtype).unsqueeze(1)
        beta = self.beta * seen
        sent = beta * averages[rows] + (1 - beta) * updates
        averages[rows] = sent
        return sent, MomentumState(averages, known)
