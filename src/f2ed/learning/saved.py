"""Models in files: the safetensors format, which holds arrays and runs no code when it is read.

Eight bytes with the length of a JSON header, the header with each tensor's type, shape and place, and the tensors.
"""

from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import torch
from torch import Tensor, nn

from f2ed.core.errors import ConfigError
from f2ed.core.files import write_atomic
from f2ed.learning.vector import flatten, layout

__all__ = ["read_tensors", "save_model", "saved_vector", "tensors_of"]

_TYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4", "I16": "<i2", "I8": "i1", "U8": "u1"}
_NAMES = {np.dtype(kind): name for name, kind in _TYPES.items()}
_LARGEST_HEADER = 100_000_000


def save_model(path: Path, model: nn.Module, **about: str) -> None:
    """Write the model's `state_dict`, and texts about it."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt", **about}}
    parts, place = [], 0
    for name, tensor in model.state_dict().items():
        array = np.ascontiguousarray(tensor.detach().cpu().numpy())
        data = array.tobytes()
        shape = list(tensor.shape)
        header[name] = {"dtype": _NAMES[array.dtype], "shape": shape, "data_offsets": [place, place + len(data)]}
        parts.append(data)
        place += len(data)
    text = msgspec.json.encode(header)
    text += b" " * (-len(text) % 8)
    write_atomic(path, len(text).to_bytes(8, "little") + text + b"".join(parts), mode=0o666)


def read_tensors(path: Path) -> dict[str, Tensor]:
    """Return the tensors of a file; refuse what is not such a file, or would not be filled exactly."""
    try:
        return tensors_of(path.read_bytes(), str(path))
    except OSError as error:
        raise ConfigError(f"the model {path} cannot be read: {error.strerror}") from None


def tensors_of(content: bytes, name: str) -> dict[str, Tensor]:
    """Return the tensors in a file's content; `name` is used in errors."""
    try:
        header, body = _split(content)
        return {name: _tensor(about, body) for name, about in header.items()}
    except (ValueError, KeyError, TypeError) as error:
        raise ConfigError(f"{name} is not a model in the safetensors format: {error}") from None


def saved_vector(path: Path, model: nn.Module) -> Tensor:
    """Return the vector of a saved model that has the layout of this one."""
    tensors, wanted = read_tensors(path), layout(model)
    for name, shape in zip(wanted.names, wanted.shapes, strict=True):
        if name not in tensors:
            raise ConfigError(f"{path} has no tensor {name!r}; it holds {', '.join(sorted(tensors)[:5])} …")
        if tensors[name].shape != shape:
            raise ConfigError(
                f"{path}: {name} has shape {tuple(tensors[name].shape)}, and this model needs {tuple(shape)}"
            )
    return torch.cat([tensors[name].reshape(-1).to(flatten(model).dtype) for name in wanted.names])


def _split(data: bytes) -> tuple[dict[str, Any], memoryview]:
    """Return the header's entries and the tensors' bytes."""
    length = int.from_bytes(data[:8], "little")
    if len(data) < 8 or length > min(len(data) - 8, _LARGEST_HEADER):
        raise ValueError("its header is longer than the file")
    header = msgspec.json.decode(data[8 : 8 + length], type=dict[str, Any])
    header.pop("__metadata__", None)
    return header, memoryview(data)[8 + length :]


def _tensor(about: Any, body: memoryview) -> Tensor:
    kind, (start, end) = np.dtype(_TYPES[about["dtype"]]), about["data_offsets"]
    count = int(np.prod(about["shape"], dtype=np.int64))
    if not 0 <= start <= end <= len(body) or end - start != count * kind.itemsize:
        raise ValueError("a tensor does not fill its place")
    return torch.from_numpy(np.frombuffer(body[start:end], kind).reshape(about["shape"]).copy())
