"""The border between Flower's arrays and one vector of floats.

Arrays of floats are part of the update. Any others, such as the counters of a batch normalization, keep the global
model's values: a mean of integers is not an integer.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
from flwr.app import Array, ArrayRecord

from f2ed.core.errors import ConfigError
from f2ed.deployment.asked import Vector

__all__ = ["Vector", "flat", "moved", "tensor_sizes", "update"]


def flat(arrays: ArrayRecord) -> Vector:
    """Return all floats of a model as one vector, in the order of the record."""
    parts = [values.ravel() for name, array in arrays.items() if _is_float(values := _values(name, array))]
    if not parts:
        raise _no_floats()
    wide = any(part.dtype == np.float64 for part in parts)
    return np.concatenate(parts).astype(np.float64 if wide else np.float32, copy=False)


def tensor_sizes(arrays: ArrayRecord) -> tuple[int, ...]:
    """Return the sizes of the arrays that make up the vector; empty arrays add nothing to it."""
    every = (values.size for name, array in arrays.items() if _is_float(values := _values(name, array)))
    sizes = tuple(size for size in every if size)
    if not sizes:
        raise _no_floats()
    return sizes


def update(before: ArrayRecord, after: ArrayRecord) -> Vector:
    """Return what training changed, or raise `ConfigError` if the trained model has other arrays or shapes."""
    if missing := [name for name in before if name not in after]:
        raise ConfigError(f"the trained model lacks {missing[0]!r}; return all arrays that came in")
    if extra := [name for name in after if name not in before]:
        raise ConfigError(f"the trained model has an array {extra[0]!r} that the global one has not; return the same")
    for name in before:
        if (found := tuple(after[name].shape)) != (wanted := tuple(before[name].shape)):
            raise ConfigError(f"the trained array {name!r} has shape {found}; the global one has {wanted}")
    in_order = ArrayRecord({name: after[name] for name in before})
    return flat(in_order) - flat(before)


def moved(arrays: ArrayRecord, step: Vector) -> ArrayRecord:
    """Return the model after a step, in its own types."""
    record, start = ArrayRecord(), 0
    for name, array in arrays.items():
        values = _values(name, array)
        if _is_float(values):
            piece = step[start : start + values.size].reshape(values.shape)
            start += values.size
            # Of arrays without dimensions NumPy makes scalars, which Flower does not take.
            values = np.asarray(values + piece, values.dtype)
        record[name] = Array(values)
    if start != len(step):
        raise ConfigError(f"a step of {len(step)} coordinates for a model of {start}")
    return record


def _values(name: str, array: Array) -> npt.NDArray[Any]:
    try:
        return array.numpy()
    except (TypeError, ValueError) as error:
        raise ConfigError(
            f"the array {name!r} cannot be read ({error}); it must be a NumPy array in Flower's form"
        ) from None


def _is_float(values: npt.NDArray[Any]) -> bool:
    return bool(np.issubdtype(values.dtype, np.floating))


def _no_floats() -> ConfigError:
    return ConfigError("a model without a single array of floats; there is nothing to average")
