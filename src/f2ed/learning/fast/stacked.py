"""The gradients of many clients by one pass through the model: images of all clients, and weights `[n, ...]`.

The model runs its own code on the images of all clients at once. Where it uses its weights, in convolutions, group
normalization and dense layers, each client's images meet the client's own weights; everything else works sample by
sample. A model that uses weights otherwise is refused by name, and one that mixes samples differs from the reference.
"""

import copy
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from f2ed.learning.fast.gradients import Gradients
from f2ed.learning.losses import CROSS_ENTROPY, Loss
from f2ed.learning.vector import layout

__all__ = ["Layers", "by_stacking"]


class Layers(Protocol):
    """Layers with weights for each client; activations are `[n * b, channels, height, width]`."""

    @staticmethod
    def convolve(images: Tensor, kernels: Tensor, stride: int, edge: int) -> Tensor:
        """Convolve images with kernels `[n, out, in, k, k]`."""
        ...

    @staticmethod
    def normalize(images: Tensor, groups: int, scales: Tensor, shifts: Tensor, tiny: float) -> Tensor:
        """Normalize by groups of channels, then scale and shift by `[n, channels]`."""
        ...

    @staticmethod
    def supports(channels: int) -> bool:
        """Return whether `normalize` can handle this many channels."""
        ...


def by_stacking(model: nn.Module, layers: type[Layers], loss: Loss = CROSS_ENTROPY) -> Gradients:
    """Return the gradients of a model of convolutions, group normalization and dense layers."""
    shape, model = layout(model), copy.deepcopy(model)

    def gradients(weights: Tensor, buffers: Tensor, images: Tensor, labels: Tensor, shares: Tensor) -> Tensor:
        clients = len(images)
        sizes = shape.sizes[: shape.parameters]
        parts = weights.split_with_sizes(sizes, dim=1)
        views = [part.view(clients, *size) for part, size in zip(parts, shape.shapes, strict=False)]
        leaves = [view.detach().requires_grad_() for view in views]
        rest = shape.views(torch.cat((weights[0], buffers))) if len(buffers) else {}
        tensors = {**rest, **dict(zip(shape.names, leaves, strict=False))}
        flat = images.flatten(0, 1)
        if flat.dim() == 4:
            flat = flat.contiguous(memory_format=torch.channels_last)
        if torch.is_autocast_enabled(images.device.type):
            flat = flat.to(torch.get_autocast_dtype(images.device.type))
        with torch.enable_grad():
            with _Stacking(clients, layers, leaves):
                scores = functional_call(model, tensors, (flat,))
            each = loss.each(scores.to(weights.dtype), labels.flatten(0, 1))
            found = torch.autograd.grad((each * shares.flatten()).sum(), leaves)
        out = torch.empty_like(weights)
        for to, value in zip(out.split_with_sizes(sizes, dim=1), found, strict=True):
            to.view(value.shape).copy_(value)
        return out

    return gradients


class _Stacking(TorchFunctionMode):
    """Let functions that get a stacked weight treat each client's images by the client's weights."""

    def __init__(self, clients: int, layers: type[Layers], stacked: list[Tensor]) -> None:
        self.clients, self.layers = clients, layers
        self.stacked = {id(leaf) for leaf in stacked}

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: object,
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Call the layer for all clients, or the function itself if it uses no weights."""
        kwargs = kwargs or {}
        if not any(id(value) in self.stacked for value in (*args, *kwargs.values())):
            return func(*args, **kwargs)
        if func is torch.conv2d:
            return self._convolve(*args, **kwargs)
        if func is functional.group_norm:
            return self._normalize(*args, **kwargs)
        if func is functional.linear:
            return self._multiply(*args, **kwargs)
        if getattr(func, "__name__", "") in {"__get__", "dim", "size"}:
            return func(*args, **kwargs)
        raise NotImplementedError(f"{getattr(func, '__name__', func)} uses weights")

    def _convolve(
        self,
        images: Tensor,
        weight: Tensor,
        bias: Tensor | None = None,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
    ) -> Tensor:
        step, edge, apart = (_square(value) for value in (stride, padding, dilation))
        if apart != 1 or groups != 1 or weight.shape[-1] != weight.shape[-2]:
            raise NotImplementedError("a convolution with dilation, groups or kernels that are not square")
        out = self.layers.convolve(images, weight, step, edge)
        return out if bias is None else out + self._each(bias, images)[:, :, None, None].to(out.dtype)

    def _normalize(
        self, images: Tensor, groups: int, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5
    ) -> Tensor:
        if weight is None or bias is None or images.dim() != 4 or not self.layers.supports(images.shape[1]):
            raise NotImplementedError("group normalization without weights, or of other shapes")
        return self.layers.normalize(images, groups, weight, bias, eps)

    def _multiply(self, features: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        if features.dim() != 2:
            raise NotImplementedError("a dense layer on more than a vector per sample")
        mine = features.reshape(self.clients, -1, features.shape[1]).to(weight.dtype)
        out = torch.bmm(mine, weight.transpose(1, 2)).flatten(0, 1)
        return out if bias is None else out + self._each(bias, features)

    def _each(self, vectors: Tensor, samples: Tensor) -> Tensor:
        """Return each sample's row of `[n, ...]`."""
        return vectors.repeat_interleave(len(samples) // self.clients, dim=0)


def _square(value: Any) -> int:
    """Return a setting that is the same in both directions."""
    if isinstance(value, int):
        return value
    if isinstance(value, str) or len(set(value)) != 1:
        raise NotImplementedError(f"a convolution with {value}")
    return int(value[0])
