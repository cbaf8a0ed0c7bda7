"""Models in half precision and below, as arrays that Flower can carry, and back.

    initial_arrays = to_arrays(model.state_dict())                              on the server
    load_arrays(model, message.content["arrays"])                               on a node, before training
    to_arrays(model.state_dict(), since=message.content["arrays"])              on a node, in its reply

NumPy has no bfloat16, and Flower's arrays are NumPy's. So bfloat16, float16 and types that are shorter still travel as
float32, which holds all of their values exactly, and the server's model is a float32 one: steps add up there that are
below the precision of the clients' model.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from flwr.app import Array, ArrayRecord

from f2ed.core.errors import ConfigError
from f2ed.deployment.array_header import UNKNOWN_TO_NUMPY

__all__ = ["explain", "load_arrays", "to_arrays"]

_SINGLE = 4
"""Bytes of a float32."""
_UNSUPPORTED = "Got unsupported ScalarType"
"""How torch refuses to make a NumPy array, followed by BFloat16 or the like."""
_REMEDY = (
    "f2ed: Flower's arrays cannot carry this type; make them with f2ed.flower.to_arrays(model.state_dict()), and load "
    "them with f2ed.flower.load_arrays(model, arrays)"
)


def to_arrays(state: Mapping[str, Any], *, since: ArrayRecord | None = None) -> ArrayRecord:
    """Return a model's state, of torch tensors or NumPy arrays, as arrays in which narrow floats are float32.

    `since` are the arrays that came in, in the reply of a training function: what training changed is added to them, so
    that what rounding lost when they were loaded does not count as training.
    """
    if not isinstance(state, Mapping):
        raise ConfigError(f"to_arrays was given a {type(state).__name__}; give a mapping, such as model.state_dict()")
    return ArrayRecord({name: Array(_carried(name, value, since)) for name, value in state.items()})


def load_arrays(model: Any, arrays: ArrayRecord, *, strict: bool = True) -> Any:
    """Load arrays into a torch model, rounded to its types; return what `load_state_dict` does.

    Raise `ConfigError` for a value that is beyond the range of its type: torch would make it infinite.
    """
    there = model.state_dict()
    state = arrays.to_torch_state_dict()
    for name, value in state.items():
        if name in there and value.is_floating_point() and there[name].dtype != value.dtype:
            rounded = value.to(there[name].dtype)
            if bool((rounded.isinf() & ~value.isinf()).any()):
                raise ConfigError(
                    f"the array {name!r} has values beyond the range of {there[name].dtype}; load it into a model of "
                    "float32 or bfloat16, or train with smaller steps"
                )
    return model.load_state_dict(state, strict=strict)


def explain(error: BaseException | None) -> None:
    """Add what to do to an error that comes of a type which Flower's arrays cannot carry."""
    if isinstance(error, TypeError) and str(error).startswith(_UNSUPPORTED) and _REMEDY not in _notes(error):
        error.add_note(_REMEDY)


def _notes(error: BaseException) -> list[str]:
    return getattr(error, "__notes__", [])


def _carried(name: str, value: Any, since: ArrayRecord | None) -> npt.NDArray[Any]:
    """Return the values of one array as they travel."""
    if not _is_narrow(value):
        return _plain(value)
    after = _widened(value)
    if since is None:
        return after
    if name not in since:
        raise ConfigError(f"the trained model has an array {name!r} that did not come in; give the arrays that did")
    before = since[name].numpy()
    if before.shape != after.shape:
        raise ConfigError(f"the trained array {name!r} has shape {after.shape}; what came in has {before.shape}")
    return np.asarray(before + (after - _widened(_rounded(before, value))), np.float32)


def _is_narrow(value: Any) -> bool:
    if _is_tensor(value):
        return bool(value.is_floating_point()) and value.element_size() < _SINGLE
    found = np.asarray(value).dtype
    return found.name in UNKNOWN_TO_NUMPY or (found.kind == "f" and found.itemsize < _SINGLE)


def _plain(value: Any) -> npt.NDArray[Any]:
    return np.asarray(value.detach().cpu().numpy() if _is_tensor(value) else value)


def _widened(value: Any) -> npt.NDArray[np.float32]:
    return np.asarray(value.detach().cpu().float().numpy() if _is_tensor(value) else value, np.float32)


def _rounded(values: npt.NDArray[Any], like: Any) -> Any:
    """Return values in the type of another array, as loading gives them."""
    if _is_tensor(like):
        return like.new_tensor(values)
    return values.astype(np.asarray(like).dtype)


def _is_tensor(value: Any) -> bool:
    """Return whether this is a tensor of torch, which is not imported here: apps without it start faster."""
    return hasattr(value, "detach") and hasattr(value, "element_size")
