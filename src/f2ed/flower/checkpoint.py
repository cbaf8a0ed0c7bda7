"""What a server keeps on disk after every round, so that a restarted one continues to the bit."""

import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, final

import msgspec
import numpy as np
import numpy.typing as npt
from flwr.app import Array, ArrayRecord

from f2ed.core.errors import ConfigError
from f2ed.core.files import write_or_refuse
from f2ed.core.msgpack_parts import Joined, parts
from f2ed.deployment.journal import History
from f2ed.protocol.aggregation import StepState
from f2ed.protocol.helpers import ServerGuard
from f2ed.records import RoundRecord

__all__ = ["Progress", "load", "save", "save_model", "write_npz"]

_FORMAT = 3
_NO_STEP = StepState()


class Progress(NamedTuple):
    """How far a run is: everything that the next round depends on."""

    round: int
    """Rounds that are finished."""
    arrays: ArrayRecord
    seed: int
    """Of the estimator's random draws."""
    step: StepState = _NO_STEP
    history: History = History()
    record: RoundRecord | None = None
    """Of the last round, in case a crash comes before it is on file."""
    following: int = 0
    """The number of the next round in the protocol, which counts over all runs."""
    attempts: tuple[str, ...] = ()
    """Attempts at the next round that were skipped."""
    inner: bytes = b""
    """The arrays of an inner strategy."""
    guard: ServerGuard = ServerGuard()
    """With helpers: survivors and strikes of the epoch."""


class _Format(msgspec.Struct, frozen=True):
    format: int = 1


@final
class _StoredArray(msgspec.Struct, frozen=True, array_like=True):
    name: str
    dtype: str
    shape: tuple[int, ...]
    stype: str
    data: bytes


@final
class _Stored(msgspec.Struct, frozen=True, kw_only=True):
    """The model after a round. It holds no secret but the model and the seed of the estimator's draws."""

    format: int = _FORMAT
    round: int
    roster: str
    """The name of the federation; a new serial of the same roster may continue."""
    arrays: tuple[_StoredArray, ...]
    seed: bytes
    step: bytes
    history: History
    record: RoundRecord | None
    following: int | None = None
    attempts: tuple[str, ...] = ()
    inner: bytes = b""
    guard: ServerGuard = ServerGuard()


def save(path: Path, progress: Progress, *, roster: str) -> None:
    """Replace the checkpoint, a `_Stored` in parts; a crash leaves the old one or the new one, whole."""
    stored = {
        "format": _FORMAT,
        "round": progress.round,
        "roster": roster,
        "arrays": [(name, *_described(array)) for name, array in progress.arrays.items()],
        "seed": progress.seed.to_bytes(32, "big"),
        "step": Joined(progress.step.to_parts()),
        "history": progress.history,
        "record": progress.record,
        "following": progress.following,
        "attempts": progress.attempts,
        "inner": progress.inner,
        "guard": progress.guard,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    write_or_refuse(path, parts(stored), what="the checkpoint")


def _described(array: Array) -> tuple[str, tuple[int, ...], str, bytes]:
    """Return the fields of a `_StoredArray` after its name."""
    return array.dtype, tuple(array.shape), array.stype, array.data


def load(path: Path, *, roster: str, like: ArrayRecord) -> Progress | None:
    """Return the checkpoint, None if there is none, or raise `ConfigError` if it belongs to something else."""
    try:
        found = _decoded(path)
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise ConfigError(f"the checkpoint {path} cannot be read ({error}); move it away to start over") from None
    if found.roster != roster:
        raise ConfigError(
            f"the checkpoint {path} belongs to {found.roster!r}, and this is {roster!r}; name another file"
        )
    shapes = {each.name: (each.dtype, each.shape) for each in found.arrays}
    wanted = {name: (array.dtype, tuple(array.shape)) for name, array in like.items()}
    if shapes != wanted:
        raise ConfigError(f"the checkpoint {path} holds another model than the initial one; name another file")
    arrays = {
        each.name: Array(dtype=each.dtype, shape=each.shape, stype=each.stype, data=each.data) for each in found.arrays
    }
    return Progress(
        round=found.round,
        arrays=ArrayRecord(arrays),
        seed=int.from_bytes(found.seed, "big"),
        step=StepState.from_bytes(found.step),
        history=found.history,
        record=found.record,
        following=found.round if found.following is None else found.following,
        attempts=found.attempts,
        inner=found.inner,
        guard=found.guard,
    )


def save_model(checkpoint: Path, path: Path) -> None:
    """Write the arrays of a checkpoint as NumPy's archive, for other programs."""
    arrays = _decoded(checkpoint).arrays
    write_npz(path, {each.name: Array(each.dtype, each.shape, each.stype, each.data).numpy() for each in arrays})


def write_npz(path: Path, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
    """Write arrays as NumPy's archive, under any names; a crash leaves the old file or the new one."""
    fresh = path.with_name(f"{path.name}.new")
    with zipfile.ZipFile(fresh, "w") as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as file:
                np.lib.format.write_array(file, array, allow_pickle=False)
    fresh.replace(path)


def _decoded(path: Path) -> _Stored:
    data = path.read_bytes()
    version = msgspec.msgpack.decode(data, type=_Format).format
    if version != _FORMAT:
        raise ConfigError(
            f"the checkpoint {path} has format {version}, and this version of f2ed reads format {_FORMAT}; finish that "
            "run with the version that wrote it, or name another file to start over"
        )
    return msgspec.msgpack.decode(data, type=_Stored)
