"""The border between Flower's arrays and one vector of floats.

Arrays of floats of any precision are part of the update, as far as the roster lets buffers travel; it is computed in
float32 at least. Any others, such as the counters of a batch normalization, keep the global model's values: a mean of
integers is not an integer.
"""

from logging import getLogger
from typing import Any

import numpy as np
import numpy.typing as npt
from flwr.app import Array, ArrayRecord

from f2ed.core.errors import ConfigError
from f2ed.deployment.asked import Vector
from f2ed.protocol.aggregation import Buffers, UpdatePlan, plan_update

__all__ = ["NO_MODEL", "Vector", "flat", "moved", "stated_plan", "update", "update_plan"]

_log = getLogger("f2ed.flower")


NO_MODEL = UpdatePlan((), (), (), 0, ())
"""Where clients only measure, nothing is trained."""


def update_plan(arrays: ArrayRecord, buffers: Buffers | None, *, clip_value: float) -> UpdatePlan:
    """Return which arrays make up the vector of an update, in which order."""
    sizes = ((name, _values(name, array)) for name, array in arrays.items())
    return plan_update(
        [(name, values.size if _is_float(values) else 0) for name, values in sizes], buffers, clip_value=clip_value
    )


def stated_plan(arrays: ArrayRecord, rules: Buffers | None, *, clip_value: float) -> UpdatePlan:
    """Return what an update is made of, and log what happens to buffers."""
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
    return update_plan(arrays, rules, clip_value=clip_value)


def flat(arrays: ArrayRecord, plan: UpdatePlan) -> Vector:
    """Return the floats of a model that travel as one vector, in the order of the plan."""
    names = list(arrays)
    parts = [_values(name, arrays[name]).ravel() for name in (names[place] for place in plan.places)]
    wide = any(part.dtype == np.float64 for part in parts)
    return np.concatenate(parts).astype(np.float64 if wide else np.float32, copy=False)


def update(before: ArrayRecord, after: ArrayRecord, plan: UpdatePlan) -> Vector:
    """Return what training changed, or raise `ConfigError` if the trained model has other arrays or shapes."""
    if missing := [name for name in before if name not in after]:
        raise ConfigError(f"the trained model lacks {missing[0]!r}; return all arrays that came in")
    if extra := [name for name in after if name not in before]:
        raise ConfigError(f"the trained model has an array {extra[0]!r} that the global one has not; return the same")
    for name in before:
        if (found := tuple(after[name].shape)) != (wanted := tuple(before[name].shape)):
            raise ConfigError(f"the trained array {name!r} has shape {found}; the global one has {wanted}")
    names = list(before)
    for name in (names[place] for place in plan.places):
        if not _is_float(values := _values(name, after[name])):
            raise ConfigError(f"the trained array {name!r} is of type {values.dtype}; the global one holds floats")
    in_order = ArrayRecord({name: after[name] for name in before})
    return flat(in_order, plan) - flat(before, plan)


def moved(arrays: ArrayRecord, step: Vector, plan: UpdatePlan) -> ArrayRecord:
    """Return the model after a step, in its own types; arrays that do not travel stay as they are."""
    if plan.coordinates != len(step):
        raise ConfigError(f"a step of {len(step)} coordinates for a model of {plan.coordinates}")
    names, record = list(arrays), ArrayRecord(dict(arrays))
    for place, span in plan.spans():
        values = _values(names[place], arrays[names[place]])
        after = values + step[span].reshape(values.shape)
        if place in plan.variances:
            after = np.maximum(after, 0)
        # Of arrays without dimensions NumPy makes scalars, which Flower does not take.
        record[names[place]] = Array(_rounded(names[place], after, values.dtype))
    return record


def _rounded(name: str, values: npt.NDArray[Any], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """Return values in a model's own type, or raise `ConfigError` where that cannot hold them."""
    try:
        with np.errstate(over="raise"):
            return np.asarray(values, dtype)
    except FloatingPointError:
        raise ConfigError(
            f"the step takes {name!r} beyond the range of {dtype}, which ends at {np.finfo(dtype).max:g}; start from a "
            "float32 model, or train with smaller steps"
        ) from None


def _values(name: str, array: Array) -> npt.NDArray[Any]:
    try:
        return array.numpy()
    except (TypeError, ValueError) as error:
        raise ConfigError(
            f"the array {name!r} cannot be read ({error}); it must be a NumPy array in Flower's form"
        ) from None


def _is_float(values: npt.NDArray[Any]) -> bool:
    return bool(np.issubdtype(values.dtype, np.floating))
