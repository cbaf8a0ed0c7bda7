"""Trace one round and list the files of ours that handle the update, in the order in which it reaches them.

A function handles the update if it receives, passes on or returns an array as long as the model (or one row per client
or shard of that length), masked words or bytes of that length, or a message that holds one. The ride begins with the
trained update and ends before evaluation: inside `learning` only the function that was called from outside counts.
"""

import re
import sys
import threading
import tomllib
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "f2ed"
SLACK = 64
"""Words that an encoded update has beyond the model's coordinates: the clip counters."""


MOVED = ("flower/arrays.py", "moved", "return")
"""Where the ride ends on Flower: the update has become the next model."""


class Ride(NamedTuple):
    """The files in order of first contact, and every (caller, callee) pair of them."""

    files: tuple[str, ...]
    calls: frozenset[tuple[str, str]]


class Tracer:
    """Collects the ride of a block: `with Tracer(coordinates) as tracer: …`, then `tracer.ride()`.

    With `waiting` it collects nothing before `begin` is called.
    """

    def __init__(self, coordinates, *, waiting=False):
        self._coordinates = coordinates
        self._waiting = waiting
        self._files = {}
        self._calls = set()
        self._over = False

    def __enter__(self):
        threading.setprofile(self._event)
        sys.setprofile(self._event)
        return self

    def __exit__(self, *_):
        sys.setprofile(None)
        threading.setprofile(None)

    def begin(self):
        self._waiting = False

    def ride(self):
        return Ride(tuple(self._files), frozenset(self._calls))

    def _event(self, frame, event, argument):
        if self._waiting or self._over or event not in {"call", "return"} or (file := ours(frame)) is None:
            return
        self._over = file == "learning/evaluate.py" or (file, frame.f_code.co_name, event) == MOVED
        caller = _caller(frame)
        training = file.startswith("learning/") and (caller or "").startswith("learning/")
        if self._over or training:
            return
        values = _arguments(frame) if event == "call" else [argument]
        if any(self._is_update(value) for value in values):
            self._files |= dict.fromkeys([file] if caller is None else [caller, file])
            if caller not in {None, file}:
                self._calls.add((caller, file))

    def _is_update(self, value, depth=3):
        if isinstance(value, bytes | bytearray | memoryview):
            return len(value) >= 2 * self._coordinates
        if (size := _size(value)) is not None:
            return size >= self._coordinates and size % self._coordinates <= SLACK
        return depth > 0 and any(self._is_update(part, depth - 1) for part in _parts(value))


def ours(frame):
    path = frame.f_code.co_filename
    if not path.startswith(str(SOURCE)):
        return None
    return str(Path(path).relative_to(SOURCE))


def layers():
    """Return the layer of each package, 0 at the top, as import-linter holds it."""
    contract = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]["contracts"]
    one_way = next(each for each in contract if each["type"] == "layers" and each["containers"] == ["f2ed"])
    return {name: depth for depth, line in enumerate(one_way["layers"]) for name in re.findall(r"\w+", line)}


def upward(ride):
    """Return the calls that go from a lower package to a higher one."""
    order = layers()
    return {(caller, callee) for caller, callee in ride.calls if order[_package(callee)] < order[_package(caller)]}


def _package(file):
    return file.partition("/")[0]


def _caller(frame):
    """Return the file of ours that called, past frames of libraries; none across a process or thread border."""
    while (frame := frame.f_back) is not None:
        if (file := ours(frame)) is not None:
            return file
        if "/tests/" in frame.f_code.co_filename:
            return None
    return None


def _arguments(frame):
    code = frame.f_code
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    return [frame.f_locals[name] for name in names if name != "self" and name in frame.f_locals]


def _size(value):
    if isinstance(value, np.ndarray):
        return value.size
    numel = getattr(type(value), "numel", None)
    return value.numel() if numel is not None else None


def _parts(value):
    if isinstance(value, dict):
        return list(value.values())
    if isinstance(value, tuple | list):
        return value
    if isinstance(value, msgspec.Struct):
        return [getattr(value, name) for name in value.__struct_fields__]
    return _flower_parts(value)


def _flower_parts(value):
    if not type(value).__module__.startswith("flwr."):
        return []
    if type(value).__name__ == "Message":
        return [value.content] if value.has_content() else []
    if type(value).__name__ == "Array":
        return [value.data]
    return list(value.values()) if hasattr(value, "values") else []
