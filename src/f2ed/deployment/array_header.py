"""The header of an array in NumPy's npy form, checked before anything of the size that it declares is allocated."""

from io import BytesIO
from math import prod
from typing import Any

import numpy as np
from numpy.lib import format as npy

from f2ed.core.errors import ConfigError

__all__ = ["HEADER_READERS", "NUMPY", "UNKNOWN_TO_NUMPY", "checked_dtype"]

NUMPY = "numpy.ndarray"
"""How Flower names the npy form."""

UNKNOWN_TO_NUMPY = {"bfloat16", "float8_e4m3fn", "float8_e5m2"}
"""Types that other packages add to NumPy, and of which an npy header does not know the name."""
HEADER_READERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}


def checked_dtype(name: str, *, dtype: str, shape: tuple[int, ...], stype: str, data: bytes) -> np.dtype[Any]:
    """Return the type of an array whose header, description and number of bytes agree, or raise `ConfigError`.

    Reading the array afterwards allocates no more than the bytes that are there.
    """
    if dtype in UNKNOWN_TO_NUMPY:
        raise ConfigError(
            f"the array {name!r} is {dtype}, which Flower's arrays cannot carry; make arrays with "
            "f2ed.flower.to_arrays, which sends it as float32, and load them with f2ed.flower.load_arrays"
        )
    if stype != NUMPY:
        raise ConfigError(f"the array {name!r} is in the form {stype!r}; send {NUMPY!r}, which Flower's Array makes")
    stream = BytesIO(data)
    try:
        declared, _, found = HEADER_READERS[npy.read_magic(stream)](stream)
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
