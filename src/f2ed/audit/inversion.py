"""Exact images from a shard mean where the first layer is dense (Phong et al. 2018; Pan et al. 2022).

The gradient of a neuron's weights is the input times the gradient of its bias, summed over all samples that activate
it. Where a single sample does, weights divided by bias is exactly that sample. The server need not know which neurons
those are. A quotient with pixels outside the valid range mixes several samples. For any other the server computes the
gradient that it would have caused, for every label; if that matches the neuron's gradient, the sample is confirmed. Its
gradient is then subtracted from the mean, which isolates other samples at other neurons, and so on.
"""

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap
from torch.nn.functional import cross_entropy

from f2ed.audit.server_view import ServerView, as_pixels
from f2ed.core.errors import ConfigError

__all__ = ["first_dense", "invert"]

_TOLERANCE = 0.05
"""How far a pixel may leave the valid range, to allow for rounding in quotients of small numbers."""
_SAME = 0.02
"""Root mean square difference of pixels up to which two quotients count as one image."""
_AGREES = 0.02
"""Relative difference up to which the gradient of a sample counts as the observed one."""


class _Found(NamedTuple):
    """Quotients [k, inputs], as pixels from 0 to 1, and the neuron that each comes from."""

    pixels: Tensor
    neurons: Tensor


def first_dense(model: nn.Module) -> str:
    """Return the name of the first layer with weights, which must be dense and see the image itself."""
    for name, module in model.named_modules():
        if isinstance(module, nn.Linear) and module.bias is not None:
            return str(name)
        if next(module.parameters(recurse=False), None) is not None:
            break
    raise ConfigError("the model's first layer is not dense, so it cannot be inverted; use gradient matching")


def invert(view: ServerView, shape: tuple[int, int, int]) -> NDArray[np.float64]:
    """Return at most as many images as went into the mean, [k, channels, height, width], confirmed ones first."""
    layer = first_dense(view.model)
    weight, bias = view.part(f"{layer}.weight").double(), view.part(f"{layer}.bias").double()
    # Rounding leaves noise of this size in a mean; smaller values carry no information.
    noise = float(bias.abs().max()) * 1e-4
    confirmed: list[Tensor] = []
    while len(confirmed) < view.samples:
        found = _quotients(weight, bias, noise, view)
        new = _confirmed(found, bias, layer, view, shape) if view.steps == 1 and len(found.pixels) else []
        fresh = [(pixels, slope) for pixels, slope in new if all(_far(pixels, other) for other in confirmed)]
        if not fresh:
            break
        for pixels, slope in fresh[: view.samples - len(confirmed)]:
            confirmed.append(pixels)
            images = view.black + (view.white - view.black) * pixels
            weight, bias = weight - slope[:, None] * images, bias - slope
    rest = _likely(_quotients(weight, bias, noise, view).pixels, view.samples - len(confirmed))
    return (
        np.asarray(torch.stack([*confirmed, *rest]).clamp(0, 1).numpy()).reshape(-1, *shape)
        if confirmed or rest
        else (np.empty((0, *shape)))
    )


def _quotients(weight: Tensor, bias: Tensor, noise: float, view: ServerView) -> _Found:
    """Return the quotients that may be images, largest divisors first: rounding has changed them least."""
    order = torch.argsort(-bias.abs())
    order = order[bias[order].abs() > noise]
    pixels = torch.from_numpy(as_pixels(weight[order] / bias[order][:, None], view.black, view.white))
    inside = (pixels.amin(dim=1) > -_TOLERANCE) & (pixels.amax(dim=1) < 1 + _TOLERANCE) if len(order) else order > 0
    return _Found(pixels[inside], order[inside])


def _confirmed(
    found: _Found, bias: Tensor, layer: str, view: ServerView, shape: tuple[int, int, int]
) -> list[tuple[Tensor, Tensor]]:
    """Return the quotients that alone explain their neuron's gradient, each with its gradient at the bias."""
    images = (view.black + (view.white - view.black) * found.pixels).float().reshape(-1, *shape)
    slopes = _slopes(view, layer, images).double() * (-view.lr / view.samples)
    seen = bias[found.neurons]
    own = slopes[torch.arange(len(images))[:, None], torch.arange(slopes.shape[1])[None], found.neurons[:, None]]
    off, label = ((own - seen[:, None]).abs() / seen.abs()[:, None]).min(dim=1)
    out: list[tuple[Tensor, Tensor]] = []
    for index in torch.argsort(off).tolist():
        pixels = found.pixels[index]
        if off[index] < _AGREES and all(_far(pixels, other) for other, _ in out):
            out.append((pixels, slopes[index, label[index]]))
    return out


def _slopes(view: ServerView, layer: str, images: Tensor) -> Tensor:
    """Return the gradient at the first layer's bias that each image would cause with each label, [k, labels, width]."""
    tensors = {name: value.detach() for name, value in view.model.named_parameters()}
    bias = tensors.pop(f"{layer}.bias")

    def loss(bias: Tensor, image: Tensor, label: Tensor) -> Tensor:
        scores = functional_call(view.model, tensors | {f"{layer}.bias": bias}, (image[None],))
        return cross_entropy(scores, label[None])

    classes = len(view.model(images[:1])[0])
    every = vmap(vmap(grad(loss), in_dims=(None, None, 0)), in_dims=(None, 0, None))
    out: Tensor = every(bias, images, torch.arange(classes))
    return out.detach()


def _likely(pixels: Tensor, most: int) -> list[Tensor]:
    """Return the quotients that most neurons agree on, then the darkest, which mix the fewest samples."""
    groups: list[tuple[int, float, int]] = []
    left = list(range(len(pixels)))
    while left:
        same = [index for index in left if not _far(pixels[left[0]], pixels[index])]
        groups.append((-len(same), float(pixels[left[0]].mean()), left[0]))
        left = [index for index in left if index not in same]
    return [pixels[index] for *_, index in sorted(groups)[:most]]


def _far(one: Tensor, other: Tensor) -> bool:
    return float((one - other).square().mean()) > _SAME**2
