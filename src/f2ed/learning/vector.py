"""A model as one flat vector: its trained parameters, then its floating-point buffers (BatchNorm's statistics).

Frozen parameters (`requires_grad = False`) are neither trained nor sent, nor are integer buffers, such as BatchNorm's
batch counter, which cannot be averaged.
"""

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor, nn

from f2ed.core.errors import ConfigError

__all__ = ["Layout", "bind", "flatten", "layout", "load", "reorder"]


@dataclass(frozen=True)
class Layout:
    """The tensors of a vector, in order: names, shapes, and how many of them are parameters."""

    names: tuple[str, ...]
    shapes: tuple[torch.Size, ...]
    parameters: int

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """The number of coordinates of each tensor."""
        return tuple(shape.numel() for shape in self.shapes)

    @property
    def dimension(self) -> int:
        """The length d of the vector."""
        return sum(self.sizes)

    @property
    def trained(self) -> int:
        """The number of leading coordinates that are parameters; the rest are buffers."""
        return sum(self.sizes[: self.parameters])

    def views(self, vector: Tensor) -> dict[str, Tensor]:
        """Return each tensor as a view into `vector`; nothing is copied."""
        parts = vector.split_with_sizes(self.sizes)
        return {name: part.view(shape) for name, part, shape in zip(self.names, parts, self.shapes, strict=True)}


def layout(model: nn.Module) -> Layout:
    """Return the layout of a model's vector; tensors that are shared appear once."""
    tensors = _tensors(model)
    return Layout(tuple(tensors), tuple(t.shape for t in tensors.values()), len(_parameters(model)))


def flatten(model: nn.Module) -> Tensor:
    """Return a copy of the model as one vector `[d]`."""
    return torch.cat([tensor.detach().reshape(-1) for tensor in _tensors(model).values()])


def load(model: nn.Module, vector: Tensor) -> None:
    """Copy a vector into the model."""
    shape = layout(model)
    if vector.shape != (shape.dimension,):
        raise ConfigError(f"the vector has shape {tuple(vector.shape)}, but the model needs ({shape.dimension},)")
    with torch.no_grad():
        for tensor, part in zip(_tensors(model).values(), vector.split_with_sizes(shape.sizes), strict=True):
            tensor.copy_(part.view(tensor.shape))


def bind(model: nn.Module, *, channels_last: bool = False) -> tuple[Tensor, Tensor]:
    """Move the model's tensors into one new vector, and its gradients into another; return both.

    An optimizer step is then one operation on the two; the gradient has only the trained coordinates. With
    `channels_last` convolution kernels are stored in that order within their part, so the vector differs from that of
    `flatten`: read and write it through the model.
    """
    shape = layout(model)
    vector = torch.empty(shape.dimension, device=flatten(model).device)
    gradient = torch.zeros_like(vector[: shape.trained])
    for part, tensor in zip(vector.split_with_sizes(shape.sizes), _tensors(model).values(), strict=True):
        view = _view(part, tensor.shape, channels_last=channels_last)
        # Setting .data keeps the tensor object, so modules that share it still do.
        tensor.data = view.copy_(tensor.detach())
    for part, parameter in zip(
        gradient.split_with_sizes(shape.sizes[: shape.parameters]), _parameters(model).values(), strict=True
    ):
        parameter.grad = _view(part, parameter.shape, channels_last=channels_last)
    return vector, gradient


def reorder(trained: Tensor, shape: Layout) -> Tensor:
    """Return a copy of the trained part of a vector with kernels in the order of a model bound channels-last."""
    out = torch.empty_like(trained)
    sizes = shape.sizes[: shape.parameters]
    for to, part, size in zip(out.split_with_sizes(sizes), trained.split_with_sizes(sizes), shape.shapes, strict=False):
        _view(to, size, channels_last=True).copy_(part.view(size))
    return out


def _view(part: Tensor, shape: torch.Size, *, channels_last: bool) -> Tensor:
    """Return a part of a vector in the shape of a tensor; nothing is copied."""
    if not channels_last or len(shape) != 4:
        return part.view(shape)
    outputs, inputs, height, width = shape
    return part.view(outputs, height, width, inputs).permute(0, 3, 1, 2)


def _tensors(model: nn.Module) -> dict[str, Tensor]:
    """Return the tensors of the vector by name, in its order."""
    buffers = {name: buffer for name, buffer in model.named_buffers() if buffer.is_floating_point()}
    parameters = _parameters(model)
    if not parameters:
        raise ConfigError("the model has no parameters that require a gradient; there is nothing to train")
    tensors = {**parameters, **buffers}
    if other := {name: tensor.dtype for name, tensor in tensors.items() if tensor.dtype != torch.float32}:
        name, dtype = next(iter(other.items()))
        raise ConfigError(f"the model's {name} is {dtype}; updates are float32, so call .float() on the model")
    return tensors


def _parameters(model: nn.Module) -> dict[str, nn.Parameter]:
    """Return the parameters that are trained."""
    return {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}
