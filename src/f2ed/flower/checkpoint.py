"""What a server keeps on disk after every round, so that another one can go on."""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import final

import msgspec
from flwr.app import Array, ArrayRecord

from f2ed.core.errors import ConfigError
from f2ed.core.files import write_atomic

__all__ = ["Checkpoint", "load", "save"]


@final
class _Stored(msgspec.Struct, frozen=True, array_like=True):
    name: str
    dtype: str
    shape: tuple[int, ...]
    stype: str
    data: bytes


@final
class Checkpoint(msgspec.Struct, frozen=True, kw_only=True):
    """The model after a round. It holds no secret but the model."""

    format: int = 1
    round: int
    roster: str
    """The name of the federation; a new serial of the same roster may go on."""
    arrays: tuple[_Stored, ...]
    spent: dict[int, float] = {}
    """Where there is noise, what differential privacy each client has lost so far, as zCDP rho."""

    def record(self) -> ArrayRecord:
        """Return the model."""
        return ArrayRecord(
            {
                each.name: Array(dtype=each.dtype, shape=each.shape, stype=each.stype, data=each.data)
                for each in self.arrays
            }
        )


def save(
    path: Path, *, round_: int, roster: str, arrays: ArrayRecord, spent: Mapping[int, float] = MappingProxyType({})
) -> None:
    """Replace the checkpoint; a crash leaves the old one or the new one, whole."""
    stored = tuple(
        _Stored(name, array.dtype, tuple(array.shape), array.stype, array.data) for name, array in arrays.items()
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    kept = Checkpoint(round=round_, roster=roster, arrays=stored, spent=dict(spent))
    write_atomic(path, msgspec.msgpack.encode(kept))


def load(path: Path, *, roster: str, like: ArrayRecord) -> Checkpoint | None:
    """Return the checkpoint, None if there is none, or raise `ConfigError` if it belongs to something else."""
    try:
        found = msgspec.msgpack.decode(path.read_bytes(), type=Checkpoint)
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise ConfigError(f"the checkpoint {path} cannot be read ({error}); move it away to begin anew") from None
    if found.roster != roster:
        raise ConfigError(
            f"the checkpoint {path} belongs to {found.roster!r}, and this is {roster!r}; name another file"
        )
    shapes = {each.name: (each.dtype, each.shape) for each in found.arrays}
    wanted = {name: (array.dtype, tuple(array.shape)) for name, array in like.items()}
    if shapes != wanted:
        raise ConfigError(f"the checkpoint {path} holds another model than the initial one; name another file")
    return found
