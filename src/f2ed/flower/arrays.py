"""The border between Flower's arrays and one vector of floats.

Arrays of floats of any precision are part of the update, as far as the roster lets buffers travel; it is computed in
float32 at least. Any others, such as the counters of a batch normalization, keep the global model's values: a mean of
integers is not an integer.
"""

from collections.abc import Callable
from functools import partial
from io import BytesIO
from logging import getLogger
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt
from flwr.app import Array, ArrayRecord
from numpy.lib import format as npy

from f2ed.core.errors import ConfigError
from f2ed.deployment.array_header import HEADER_READERS, NUMPY, UNKNOWN_TO_NUMPY
from f2ed.deployment.asked import Vector
from f2ed.protocol.aggregation import Buffers, UpdatePlan, plan_update

__all__ = ["NO_MODEL", "Vector", "moved", "stated_plan", "update", "update_plan"]

_log = getLogger("f2ed.flower")

_BLOCK = 1 << 16

NO_MODEL = UpdatePlan((), (), (), 0, ())
"""Where clients only measure, nothing is trained."""


def update_plan(arrays: ArrayRecord, buffers: Buffers | None, *, clip_value: float) -> UpdatePlan:
    """Return which arrays make up the vector of an update, in which order."""
    sizes = ((name, _values(name, array)) for name, array in arrays.items())
    return plan_update(
        [(name, values.size if _is_float(values) else 0) for name, values in sizes], buffers, clip_value=clip_value
    )


def stated_plan(arrays: ArrayRecord, rules: Buffers | None, *, clip_value: float) -> UpdatePlan:
    """Return what an update is made of, and log what happens to buffers; refuse a model from which none can be made."""
    found = [name for name in arrays if (rules or Buffers()).is_buffer(name)]
    if found and rules is None:
        _log.warning(
            "f2ed: the model has %s buffers (%s …), and the roster has no rule for them: they are clipped at %g "
            "and judged like weights. Sign it again with f2ed roster sign --buffers average",
            len(found),
            found[0],
            clip_value,
        )
    elif found and rules is not None:
        _log.info("f2ed: %s buffers (%s …), by the roster: %s", len(found), found[0], rules.policy)
    plan = update_plan(arrays, rules, clip_value=clip_value)
    _check_finite(arrays, plan)
    return plan


def update(before: ArrayRecord, after: ArrayRecord, plan: UpdatePlan) -> Vector:
    """Return what training changed, or raise `ConfigError` if the trained model has other arrays or shapes."""
    if missing := [name for name in before if name not in after]:
        raise ConfigError(f"the trained model lacks {missing[0]!r}; return all arrays that came in")
    if extra := [name for name in after if name not in before]:
        raise ConfigError(f"the trained model has an array {extra[0]!r} that the global one has not; return the same")
    for name in before:
        if (found := tuple(after[name].shape)) != (wanted := tuple(before[name].shape)):
            raise ConfigError(f"the trained array {name!r} has shape {found}; the global one has {wanted}")
    names, spans = list(before), list(plan.spans())
    old, new = ([_values(names[place], each[names[place]]) for place, _ in spans] for each in (before, after))
    for (place, _), values in zip(spans, new, strict=True):
        if not _is_float(values):
            kind = after[names[place]].dtype
            remedy = "; make it with f2ed.flower.to_arrays" if kind in UNKNOWN_TO_NUMPY else ""
            raise ConfigError(
                f"the trained array {names[place]!r} is of type {kind}; the global one holds floats{remedy}"
            )
    wide = any(values.dtype == np.float64 for values in (*old, *new))
    change: Vector = np.empty(plan.coordinates, np.float64 if wide else np.float32)
    for (_, span), one, other in zip(spans, old, new, strict=True):
        np.subtract(other.reshape(-1), one.reshape(-1), out=change[span], dtype=change.dtype)
    return change


def moved(arrays: ArrayRecord, step: Vector, plan: UpdatePlan) -> ArrayRecord:
    """Return the model after a step, in its own types; arrays that do not travel stay as they are.

    Beside the two models nothing of their size is held.
    """
    if plan.coordinates != len(step):
        raise ConfigError(f"a step of {len(step)} coordinates for a model of {plan.coordinates}")
    names, record = list(arrays), ArrayRecord(dict(arrays))
    for place, span in plan.spans():
        name, least = names[place], 0 if place in plan.variances else None
        values = _values(name, arrays[name])
        add = partial(_add, name, values.reshape(-1), step[span], least)
        data = _filled(values.shape, values.dtype, add)
        record[name] = Array(str(values.dtype), values.shape, NUMPY, data)
    return record


def _check_finite(arrays: ArrayRecord, plan: UpdatePlan) -> None:
    names = list(arrays)
    for place, _ in plan.spans():
        values = _values(names[place], arrays[names[place]]).reshape(-1)
        blocks = (values[start : start + _BLOCK] for start in range(0, len(values), _BLOCK))
        if not all(np.isfinite(block).all() for block in blocks):
            raise ConfigError(
                f"the array {names[place]!r} of the model has values that are NaN or infinite, so no client could send "
                "an update of it; correct the model, or keep the array out of updates (trained_arrays, or f2ed roster "
                "sign --buffer)"
            )


def _add(name: str, values: npt.NDArray[Any], step: Vector, least: float | None, out: npt.NDArray[Any]) -> None:
    """Write values + step in the type of the values, or raise `ConfigError` where that cannot hold them."""
    try:
        with np.errstate(over="raise"):
            for start in range(0, len(values), _BLOCK):
                block = slice(start, start + _BLOCK)
                after = values[block] + step[block]
                out[block] = after if least is None else np.maximum(after, least)
    except FloatingPointError:
        raise ConfigError(
            f"the step takes {name!r} beyond the range of {values.dtype}, which ends at "
            f"{np.finfo(values.dtype).max:g}; start from a float32 model, or train with smaller steps"
        ) from None


def _values(name: str, array: Array) -> npt.NDArray[Any]:
    found = f"it is in the form {array.stype!r}"
    if array.stype == NUMPY:
        try:
            return _viewed(array.data)
        except ValueError as error:
            found = str(error)
    raise ConfigError(f"the array {name!r} cannot be read ({found}); it must be a NumPy array in Flower's form")


def _is_float(values: npt.NDArray[Any]) -> bool:
    return bool(np.issubdtype(values.dtype, np.floating))


def _viewed(data: bytes) -> npt.NDArray[Any]:
    """Return the values of an array in the npy form: a view of its bytes, read-only. Raise `ValueError` for any other.

    NumPy's own reader makes a copy, which of a large model is as large as the model.
    """
    stream = BytesIO(data)
    version = npy.read_magic(stream)
    if version not in HEADER_READERS:
        raise ValueError(f"an npy header of version {version}")
    shape, in_columns, dtype = HEADER_READERS[version](stream)
    if dtype.hasobject:
        raise ValueError("it holds Python objects")
    values = np.frombuffer(data, dtype, offset=stream.tell())
    return values.reshape(shape, order="F" if in_columns else "C")


def _filled(shape: tuple[int, ...], dtype: np.dtype[Any], fill: Callable[[npt.NDArray[Any]], None]) -> bytes:
    """Return an array in the npy form; `fill` writes its values into a flat array of zeros, and must not keep that.

    The values are in the bytes from the start, so nothing of the array's size is allocated but they.
    """
    stream = BytesIO()
    header = {"descr": npy.dtype_to_descr(dtype), "fortran_order": False, "shape": shape}
    npy.write_array_header_1_0(stream, header)
    start, size = stream.tell(), prod(shape) * dtype.itemsize
    if size:
        stream.seek(start + size - 1)
        stream.write(b"\0")
        with stream.getbuffer() as buffer:
            fill(np.frombuffer(buffer, dtype, offset=start))
    return stream.getvalue()
