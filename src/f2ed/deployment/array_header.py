"""Arrays in NumPy's npy form: a header, checked before anything of its size is allocated, and the values."""

from collections.abc import Callable
from io import BytesIO
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.lib import format as npy

from f2ed.core.errors import ConfigError

__all__ = ["NUMPY", "checked_dtype", "npy_filled", "npy_values"]

NUMPY = "numpy.ndarray"
"""How Flower names the npy form."""

_UNKNOWN_TO_NUMPY = {"bfloat16", "float8_e4m3fn", "float8_e5m2"}
"""Types that other packages add to NumPy, and of which an npy header does not know the name."""
_READERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}


def checked_dtype(name: str, *, dtype: str, shape: tuple[int, ...], stype: str, data: bytes) -> np.dtype[Any]:
    """Return the type of an array whose header, description and number of bytes agree, or raise `ConfigError`.

    Reading the array afterwards allocates no more than the bytes that are there.
    """
    if dtype in _UNKNOWN_TO_NUMPY:
        raise ConfigError(
            f"the array {name!r} is {dtype}, which Flower's arrays cannot carry; send it as float32 (in torch: "
            "value.float()), and convert it back after loading"
        )
    if stype != NUMPY:
        raise ConfigError(f"the array {name!r} is in the form {stype!r}; send {NUMPY!r}, which Flower's Array makes")
    stream = BytesIO(data)
    try:
        declared, _, found = _READERS[npy.read_magic(stream)](stream)
    except Exception as error:  # noqa: BLE001  NumPy reads the header as Python, and may raise almost anything
        raise ConfigError(
            f"the array {name!r} has no npy header that can be read ({type(error).__name__}); "
            "make it with Flower's Array"
        ) from None
    if any(type(size) is not int or size < 0 for size in (*shape, *declared)) or (str(found), declared) != (
        dtype,
        shape,
    ):
        raise ConfigError(
            f"the array {name!r} is described as {dtype[:40]} of shape {str(shape)[:80]} and its header says {found} "
            f"of {str(declared)[:80]}; both must be equal"
        )
    if found.hasobject or not found.itemsize:
        raise ConfigError(f"the array {name!r} holds {found}; only plain numbers, texts and bytes can be sent")
    if (there := len(data) - stream.tell()) != (declares := prod(declared) * found.itemsize):
        raise ConfigError(f"the array {name!r} declares {declares} bytes and comes with {there}")
    return found


def npy_values(data: bytes) -> npt.NDArray[Any]:
    """Return the values of an array in the npy form: a view of its bytes, read-only. Raise `ValueError` for any other.

    NumPy's own reader makes a copy, which of a large model is as large as the model.
    """
    stream = BytesIO(data)
    version = npy.read_magic(stream)
    if version not in _READERS:
        raise ValueError(f"an npy header of version {version}")
    shape, in_columns, dtype = _READERS[version](stream)
    if dtype.hasobject:
        raise ValueError("it holds Python objects")
    values = np.frombuffer(data, dtype, offset=stream.tell())
    return values.reshape(shape, order="F" if in_columns else "C")


def npy_filled(shape: tuple[int, ...], dtype: np.dtype[Any], fill: Callable[[npt.NDArray[Any]], None]) -> bytes:
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
