"""What a training function is given, and the digest of it that binds a client's masks.

What is hashed is what is handed over: the function sees an input that was rebuilt from the hashed values. Members of a
shard that were given different inputs have different masks, and their sum opens nothing.
"""

import re
import struct
from collections.abc import Iterable, Mapping
from hashlib import sha256
from math import isnan, prod
from typing import Annotated, Any, NamedTuple, TypeAlias

import msgspec
import numpy as np
from msgspec import Meta

from f2ed.core.errors import ConfigError
from f2ed.deployment.array_header import checked_dtype
from f2ed.protocol.aggregation import Buffers, UpdatePlan, plan_update
from f2ed.protocol.primitives.crypto import digest
from f2ed.protocol.primitives.fields import fields, unsigned

__all__ = ["ArrayHeader", "InputSummary", "NamedArray", "Setting", "TrainInput", "plain_settings", "run_digest"]

Scalar: TypeAlias = bool | int | float | str | bytes
Setting: TypeAlias = Scalar | list[bool] | list[int] | list[float] | list[str] | list[bytes]

_FLOAT = re.compile(r"float\d+|[<>]f\d+")
"""How NumPy writes types of floats."""


class NamedArray(NamedTuple):
    """An array as it was received, in the npy form."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    stype: str
    data: bytes

    def checked(self) -> np.dtype[Any]:
        """Return the type of its values, or raise `ConfigError` if it cannot be read safely."""
        return checked_dtype(self.name, dtype=self.dtype, shape=self.shape, stype=self.stype, data=self.data)

    def header(self) -> "ArrayHeader":
        """Return its description, with a digest in place of the data."""
        return ArrayHeader(self.name, self.dtype, self.shape, self.stype, sha256(self.data).digest())


class ArrayHeader(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """An array without its data."""

    name: str
    dtype: str
    shape: tuple[Annotated[int, Meta(ge=0)], ...]
    stype: str
    sha256: Annotated[bytes, Meta(min_length=32, max_length=32)]

    def encoded(self) -> bytes:
        """Return bytes that no other array has."""
        sizes = (unsigned(size) for size in self.shape)
        return fields(_text(self.dtype), _text(self.stype), *sizes, self.sha256)

    def floats(self) -> int:
        """Return the number of floats in it, which are coordinates of an update."""
        return prod(self.shape) if _FLOAT.fullmatch(self.dtype) else 0


class InputSummary(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """All of a training input that is checked and bound; the data of arrays stands as digests."""

    message_type: str
    """With the action, where there is one."""
    arrays_name: str
    arrays: tuple[ArrayHeader, ...]
    """In the order given, which is the order of the update's coordinates."""
    config_name: str
    config: dict[str, Any]
    """By `plain_settings`: sorted, and of plain types."""

    def plan(self, buffers: Buffers | None = None, *, clip_value: float = 1.0) -> UpdatePlan:
        """Return which arrays make up an update; raise `ConfigError` if none is trained."""
        return plan_update([(each.name, each.floats()) for each in self.arrays], buffers, clip_value=clip_value)

    def layout(self) -> bytes:
        """Return SHA-256 of the names, types and shapes of the arrays, in their order."""
        described = ((_text(each.name), _text(each.dtype), *map(unsigned, each.shape)) for each in self.arrays)
        return digest(b"f2ed layout 1", *(fields(*parts) for parts in described))

    def digest(self, run: bytes) -> bytes:
        """Return SHA-256 of the input and of `run`, the digest of the run's settings and of its app."""
        arrays = (part for each in self.arrays for part in (_text(each.name), each.encoded()))
        records = {
            self.arrays_name: _record(b"arrays", self.arrays_name, len(self.arrays), arrays),
            self.config_name: _record(b"config", self.config_name, len(self.config), _settings(self.config)),
        }
        return digest(
            b"f2ed input 3",
            _text(self.message_type),
            run,
            unsigned(len(records)),
            *(records[name] for name in sorted(records)),
        )


class TrainInput(NamedTuple):
    """All that the server gives to a training function, apart from the run's settings."""

    message_type: str
    arrays_name: str
    arrays: tuple[NamedArray, ...]
    config_name: str
    config: Mapping[str, Setting]

    def summary(self) -> InputSummary:
        """Return what is checked and bound; hashes the data."""
        arrays = tuple(each.header() for each in self.arrays)
        return InputSummary(self.message_type, self.arrays_name, arrays, self.config_name, dict(self.config))

    def layout(self) -> bytes:
        """As of its summary."""
        return self.summary().layout()

    def digest(self, run: bytes) -> bytes:
        """As of its summary."""
        return self.summary().digest(run)

    def model(self) -> bytes:
        """Return SHA-256 of the arrays alone."""
        headers = self.summary().arrays
        return digest(b"f2ed model 1", *(part for each in headers for part in (_text(each.name), each.encoded())))


def run_digest(run_config: Mapping[str, Any], app: bytes = b"") -> bytes:
    """Return SHA-256 of the run's settings and of `app`, the SHA-256 of its code where that is known."""
    config = plain_settings(run_config)
    return digest(b"f2ed run 3", app, unsigned(len(config)), *_settings(config))


def plain_settings(given: Mapping[str, Any]) -> dict[str, Setting]:
    """Return settings in the order of their names, as Python's own types, or raise `ConfigError` for any other."""
    return {name: _plain(name, given[name]) for name in sorted(given)}


def _plain(name: str, value: Any) -> Setting:
    if isinstance(value, list):
        items = [_scalar(name, each) for each in value]
        if len({type(each) for each in items}) > 1:
            raise ConfigError(f"the setting {name!r} is a list of several types; give all items one type")
        return items  # type: ignore[return-value]  # of one type, as was just checked
    return _scalar(name, value)


def _scalar(name: str, value: Any) -> Scalar:
    # A bool is an int to Python, and NumPy's float64 is a float: the first type that fits is the one that travels.
    kind = next((kind for kind in (bool, int, float, str, bytes) if isinstance(value, kind)), None)
    if kind is None:
        raise ConfigError(
            f"the setting {name!r} is a {type(value).__name__}; it must be a bool, int, float, str or bytes, "
            "or a list of one of them"
        )
    plain: Scalar = kind(value)
    if isinstance(plain, float) and isnan(plain):
        raise ConfigError(f"the setting {name!r} is not a number (NaN); leave it out instead")
    if kind is int and not -(2**63) <= plain < 2**64:  # type: ignore[operator]  # an int, as was just checked
        raise ConfigError(f"the setting {name!r} is {value}; integers have at most 64 bits")
    return plain


def _record(kind: bytes, name: str, count: int, parts: Iterable[bytes]) -> bytes:
    return fields(kind, _text(name), unsigned(count), *parts)


def _settings(config: Mapping[str, Setting]) -> Iterable[bytes]:
    return (part for name in sorted(config) for part in (_text(name), _encoded(config[name])))


def _encoded(value: Setting) -> bytes:
    """Return bytes that no other value of any type has."""
    if isinstance(value, list):
        return b"l" + fields(*map(_encoded, value))
    if isinstance(value, bool):
        return b"b" + bytes([value])
    if isinstance(value, int):
        return b"i" + value.to_bytes(9, "big", signed=True)
    if isinstance(value, float):
        return b"f" + struct.pack(">d", value)
    return b"s" + _text(value) if isinstance(value, str) else b"y" + value


def _text(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
