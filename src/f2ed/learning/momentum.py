"""Client momentum (Karimireddy, He and Jaggi 2021): a client sends the average of its updates over time.

Averaging over time reduces the variance among honest clients, in which attackers hide.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated

import msgspec
import torch
from torch import Tensor

from f2ed.core.errors import ConfigError
from f2ed.core.settings import Settings

__all__ = ["ClientMomentum", "MomentumState"]


@dataclass(frozen=True, eq=False)
class MomentumState:
    """What each client sent last, `[d]`; clients that have sent nothing yet take no memory."""

    averages: Mapping[int, Tensor] = field(default_factory=dict)

    @property
    def clients(self) -> tuple[int, ...]:
        """Who has sent anything yet."""
        return tuple(self.averages)


class ClientMomentum(Settings, frozen=True, forbid_unknown_fields=True):
    """Send m ← beta·m + (1 - beta)·update; the first time, the update itself."""

    beta: Annotated[float, msgspec.Meta(ge=0, lt=1)] = 0.9

    def __call__(self, updates: Tensor, clients: Sequence[int], state: MomentumState) -> tuple[Tensor, MomentumState]:
        """Return what the clients send for their updates, and the new state; the given one is not changed."""
        if len(updates) != len(clients):
            raise ConfigError(f"found {len(updates)} updates for {len(clients)} clients; give one per client")
        seen = torch.tensor([[float(client in state.averages)] for client in clients], device=updates.device)
        nothing = updates.new_zeros(updates.shape[1])
        before = torch.stack([state.averages.get(client, nothing) for client in clients])
        beta = self.beta * seen.to(updates.dtype)
        sent = beta * before + (1 - beta) * updates
        # Rows of their own, so that a round's matrix is not kept for the last of its clients.
        return sent, MomentumState({**state.averages, **{c: row.clone() for c, row in zip(clients, sent, strict=True)}})
