"""Updates as they come from a framework: lists of arrays, state dicts, nested dictionaries, lists and tuples."""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from f2ed.core.arrays import Array
from f2ed.core.errors import ConfigError

__all__ = ["stacked"]

_NARROW = {"float16", "bfloat16"}


def stacked(updates: Sequence[Any]) -> tuple[Array, list[int], Callable[[Array], Any]]:
    """Return the updates as rows [n, d], the sizes of their arrays, and the way back from a mean [d] to an update.

    Every floating-point leaf is part of the row; float16 and bfloat16 are computed in float32 and converted back.
    Integers, such as BatchNorm's counters, are not averaged: the mean has their median.
    """
    if isinstance(updates, Mapping | str) or not isinstance(updates, Sequence) or not updates:
        raise ConfigError(
            f"aggregate takes a list with one update per client, found {_kind(updates)}; give a list of arrays, "
            "state dicts or other structures of arrays"
        )
    leaves = [dict(_leaves(update)) for update in updates]
    if len({_is_tensor(leaf) for each in leaves for leaf in each.values()}) > 1:
        raise ConfigError("the updates mix torch tensors with other arrays; convert them to one kind")
    for number, each in enumerate(leaves):
        if _shapes(each) != _shapes(leaves[0]):
            raise ConfigError(f"update {number} differs from update 0: {_difference(leaves[0], each)}")
    learned = [path for path, leaf in leaves[0].items() if _is_float(leaf)]
    if not learned:
        raise ConfigError("the updates hold no floating-point array; convert what is to be averaged to float32")
    rows = _matrix([[each[path] for path in learned] for each in leaves])

    def restore(mean: Array) -> Any:
        return _rebuilt(updates[0], dict(_parts(mean, {path: leaves[0][path] for path in learned})), leaves)

    return rows, [_size(leaves[0][path]) for path in learned], restore


def _leaves(tree: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Walk dictionaries in their order, lists and tuples; whatever else must be an array."""
    if isinstance(tree, Mapping):
        for key, value in tree.items():
            yield from _leaves(value, (*path, key))
    elif isinstance(tree, list | tuple):
        for number, value in enumerate(tree):
            yield from _leaves(value, (*path, number))
    elif hasattr(tree, "shape") and hasattr(tree, "dtype"):
        yield path, tree
    else:
        where = ".".join(map(str, path)) or "an update"
        raise ConfigError(f"{where} is {_kind(tree)}; updates are made of arrays in dictionaries, lists and tuples")


def _rebuilt(tree: Any, means: dict[tuple[Any, ...], Any], leaves: list[dict[Any, Any]], path: Any = ()) -> Any:
    if isinstance(tree, Mapping):
        items = ((key, _rebuilt(value, means, leaves, (*path, key))) for key, value in tree.items())
        return type(tree)(items) if isinstance(tree, dict) else dict(items)
    if isinstance(tree, list | tuple):
        items = (_rebuilt(value, means, leaves, (*path, number)) for number, value in enumerate(tree))
        return type(tree)(*items) if hasattr(tree, "_fields") else type(tree)(items)
    return means[path] if path in means else _median([each[path] for each in leaves])


def _parts(mean: Array, like: dict[tuple[Any, ...], Any]) -> Iterator[tuple[tuple[Any, ...], Array]]:
    at = 0
    for path, leaf in like.items():
        part = mean[at : at + _size(leaf)].reshape(tuple(leaf.shape))
        at += _size(leaf)
        yield path, part.to(leaf.dtype) if _is_tensor(leaf) else part.astype(leaf.dtype, copy=False)


def _matrix(updates: list[list[Any]]) -> Array:
    double = any(_name(leaf) == "float64" for leaf in updates[0])
    if any(_is_tensor(leaf) for leaf in updates[0]):
        torch = sys.modules["torch"]
        kind = torch.float64 if double else torch.float32
        return torch.stack([torch.cat([leaf.detach().reshape(-1).to(kind) for leaf in each]) for each in updates])
    kind = np.float64 if double else np.float32
    return np.stack([np.concatenate([np.asarray(leaf).reshape(-1).astype(kind) for leaf in each]) for each in updates])


def _median(values: list[Any]) -> Any:
    """Return the lower median of each integer: a value that some client sent, and not an attacker's extreme."""
    if _is_tensor(values[0]):
        return sys.modules["torch"].stack(values).sort(0).values[(len(values) - 1) // 2]
    return np.sort(np.stack([np.asarray(value) for value in values]), axis=0)[(len(values) - 1) // 2]


def _is_tensor(leaf: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(leaf, torch.Tensor)


def _is_float(leaf: Any) -> bool:
    return _name(leaf) in _NARROW | {"float32", "float64"}


def _name(leaf: Any) -> str:
    return str(leaf.dtype).removeprefix("torch.")


def _size(leaf: Any) -> int:
    return int(np.prod(tuple(leaf.shape), dtype=np.int64))


def _shapes(leaves: dict[tuple[Any, ...], Any]) -> dict[tuple[Any, ...], tuple[tuple[int, ...], str]]:
    return {path: (tuple(leaf.shape), _name(leaf)) for path, leaf in leaves.items()}


def _difference(first: dict[Any, Any], other: dict[Any, Any]) -> str:
    """Name the first leaf that is missing, added, or of another shape or dtype."""
    ours, theirs = _shapes(first), _shapes(other)
    path = next(path for path in [*ours, *theirs] if ours.get(path) != theirs.get(path))
    name = ".".join(map(str, path)) or "the array"
    if path not in theirs:
        return f"it has no {name}"
    if path not in ours:
        return f"it has {name}, which update 0 lacks"
    (shape, dtype), (wanted, kind) = theirs[path], ours[path]
    return f"{name} is {dtype} of shape {shape}, wanted {kind} of shape {wanted}"


def _kind(value: Any) -> str:
    if isinstance(value, list | tuple) and not value:
        return "an empty list"
    return f"a {type(value).__name__}"
