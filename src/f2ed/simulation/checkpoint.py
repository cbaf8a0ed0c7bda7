"""Where a run stands between two rounds: all that the next round needs, and no random state.

Every draw of a run is keyed by its seed, its round and what it is for, so that the model, the clients' momentum and
the last answer are all there is to keep.
"""

from dataclasses import dataclass
from typing import NamedTuple

import msgspec
import numpy as np
import torch
from torch import Tensor

from f2ed.core.errors import ConfigError
from f2ed.learning import MomentumState
from f2ed.protocol.aggregation import StepState
from f2ed.protocol.dp import Ledger

__all__ = ["Away", "State", "pack", "unpack"]

_FIRST = StepState()
_NOTHING_SPENT = Ledger()


class Away(NamedTuple):
    """What a round did not open: shards that stayed closed, and clients missing from those that opened."""

    closed: tuple[int, ...] = ()
    silent: tuple[int, ...] = ()


@dataclass(frozen=True, eq=False)
class State:
    """Before round `round`, which counts from 0."""

    round: int
    model: Tensor
    """The global model, [d], on the training device."""
    step: StepState = _FIRST
    """What the server's next step needs from the last one."""
    memory: MomentumState | None = None
    """Where clients have momentum."""
    away: tuple[Away, ...] = ()
    """For each round so far; with the deals it says which sums the server has seen."""
    ledger: Ledger = _NOTHING_SPENT
    """Where there is noise, the privacy that each client has spent so far."""


class _Packed(msgspec.Struct, frozen=True, kw_only=True):
    digest: str
    round: int
    model: bytes
    step: bytes
    averages: bytes | None
    seen: bytes | None
    away: tuple[Away, ...]
    ledger: Ledger = Ledger()


def pack(state: State, digest: str) -> bytes:
    """Return the state as bytes, under the digest of the settings it belongs to."""
    memory = state.memory
    return msgspec.msgpack.encode(
        _Packed(
            digest=digest,
            round=state.round,
            model=_bytes(state.model),
            step=state.step.to_bytes(),
            averages=None if memory is None else _bytes(memory.averages),
            seen=None if memory is None else memory.seen.cpu().numpy().tobytes(),
            away=state.away,
            ledger=state.ledger,
        )
    )


def unpack(content: bytes, digest: str, device: torch.device) -> State:
    """Return the state again; raise `ConfigError` if it belongs to other settings, or is none."""
    try:
        packed = msgspec.msgpack.decode(content, type=_Packed)
    except msgspec.DecodeError as wrong:
        raise ConfigError(f"not a checkpoint ({wrong}); delete it to start the run from the beginning") from None
    if packed.digest != digest:
        raise ConfigError("a checkpoint of other settings; delete it to start the run from the beginning")
    memory = None
    if packed.averages is not None and packed.seen is not None:
        seen = torch.from_numpy(np.frombuffer(packed.seen, bool).copy()).to(device)
        memory = MomentumState(_tensor(packed.averages, device).view(len(seen), -1), seen)
    step = StepState.from_bytes(packed.step)
    return State(packed.round, _tensor(packed.model, device), step, memory, packed.away, packed.ledger)


def _bytes(tensor: Tensor) -> bytes:
    return tensor.detach().cpu().numpy().astype("<f4", copy=False).tobytes()


def _tensor(content: bytes, device: torch.device) -> Tensor:
    return torch.from_numpy(np.frombuffer(content, "<f4").astype(np.float32)).to(device)
