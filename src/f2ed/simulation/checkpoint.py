"""The state of a run between two rounds: everything the next round needs, and no random state.

Every random draw of a run is keyed by its seed, its round and its purpose, so the model, the clients' momentum and the
server's last step are all there is to keep.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import msgspec
import numpy as np
import torch
from torch import Tensor

from f2ed.core.errors import ConfigError
from f2ed.guarantees import Unopened
from f2ed.learning import MomentumState
from f2ed.protocol.aggregation import StepState
from f2ed.protocol.dp import Ledger
from f2ed.protocol.helpers import ServerGuard
from f2ed.simulation.early_stopping import NOT_STARTED, Patience

__all__ = ["SimulationState", "pack", "unpack"]

_FIRST = StepState()
_NOTHING_SPENT = Ledger()
_NO_MEMORY = ServerGuard()


@dataclass(frozen=True, eq=False)
class SimulationState:
    """The state before round `round`, which counts from 0."""

    round: int
    model: Tensor
    """The global model, [d], on the training device."""
    step: StepState = _FIRST
    """What the server's next step needs from the last one."""
    momentum: MomentumState | None = None
    """None where clients have no momentum."""
    unopened: tuple[Unopened, ...] = ()
    """For each round so far; with the assignments it determines which sums the server has seen."""
    ledger: Ledger = _NOTHING_SPENT
    """With differential privacy, what each client has spent so far."""
    patience: Patience = NOT_STARTED
    """Of early stopping."""
    buffers: Tensor | None = None
    """Every client's own buffers, [n, b], where they stay with the clients."""
    memory: ServerGuard = _NO_MEMORY
    """With helpers: survivors and strikes of the epoch."""


class _Packed(msgspec.Struct, frozen=True, kw_only=True):
    digest: str
    round: int
    model: bytes
    step: bytes
    averages: bytes | None
    seen: bytes | None = None
    """In older checkpoints, which clients have sent anything; the others have a row, too."""
    momentum_clients: tuple[int, ...] | None = None
    """Whose rows the averages are."""
    unopened: tuple[Unopened, ...]
    ledger: Ledger = Ledger()
    patience: Patience = NOT_STARTED
    buffers: bytes | None = None
    clients: int = 0
    memory: ServerGuard | None = None
    """Not in older checkpoints; a run that goes on from one begins without survivors and strikes."""


def pack(state: SimulationState, digest: str) -> bytes:
    """Return the state as bytes, under the digest of the settings it belongs to."""
    momentum = state.momentum
    return msgspec.msgpack.encode(
        _Packed(
            digest=digest,
            round=state.round,
            model=_bytes(state.model),
            step=state.step.to_bytes(),
            averages=None if momentum is None else b"".join(map(_bytes, momentum.averages.values())),
            momentum_clients=None if momentum is None else momentum.clients,
            unopened=state.unopened,
            ledger=state.ledger,
            patience=state.patience,
            buffers=None if state.buffers is None else _bytes(state.buffers),
            clients=0 if state.buffers is None else len(state.buffers),
            memory=state.memory,
        )
    )


def unpack(content: bytes, digest: str, device: torch.device) -> SimulationState:
    """Return the state again; raise `ConfigError` if this is no checkpoint, or one of other settings."""
    try:
        packed = msgspec.msgpack.decode(content, type=_Packed)
    except msgspec.DecodeError as wrong:
        raise ConfigError(f"not a checkpoint ({wrong}); delete it to start the run from the beginning") from None
    if packed.digest != digest:
        raise ConfigError("the checkpoint belongs to other settings; delete it to start the run from the beginning")
    momentum = _momentum(packed, device)
    step = StepState.from_bytes(packed.step)
    buffers = None if packed.buffers is None else _tensor(packed.buffers, device).view(packed.clients, -1)
    return SimulationState(
        packed.round,
        _tensor(packed.model, device),
        step,
        momentum,
        packed.unopened,
        packed.ledger,
        packed.patience,
        buffers,
        packed.memory or _NO_MEMORY,
    )


def _momentum(packed: _Packed, device: torch.device) -> MomentumState | None:
    if packed.averages is None:
        return None
    rows = np.frombuffer(packed.averages, np.uint8).reshape(-1, len(packed.model))
    clients: Iterable[int] = range(len(rows)) if packed.momentum_clients is None else packed.momentum_clients
    seen = np.frombuffer(packed.seen, bool) if packed.seen else np.ones(len(rows), bool)
    return MomentumState(
        {
            client: _tensor(row.tobytes(), device)
            for client, row, known in zip(clients, rows, seen, strict=True)
            if known
        }
    )


def _bytes(tensor: Tensor) -> bytes:
    return tensor.detach().cpu().numpy().astype("<f4", copy=False).tobytes()


def _tensor(content: bytes, device: torch.device) -> Tensor:
    return torch.from_numpy(np.frombuffer(content, "<f4").astype(np.float32)).to(device)
