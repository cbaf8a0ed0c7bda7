"""A malicious model that reads single images out of any sum (Fowl et al., ICLR 2022).

Every neuron of the first layer measures the same brightness and has another threshold; all of them feed the next layer
alike. Two neighbors differ by the samples between their thresholds. Where that is one, the difference of the weights'
gradients divided by that of the biases' is the image, however many others are in the sum.
"""

from copy import deepcopy

import numpy as np
import torch
from torch import nn

from f2ed.audit.coalitions.cohort import Vectors
from f2ed.audit.inversion import first_dense
from f2ed.audit.server_view import ServerView, as_pixels
from f2ed.learning import Data

__all__ = ["imprint", "read_bins"]

_NOISE = 1e-4
_SMALL = 1e-4
"""Scale of the first layer: its outputs hardly change the scores, so that no sample's gradient vanishes."""
_TOLERANCE = 0.05


def imprint(model: nn.Module, data: Data) -> nn.Module:
    """Return a model of the same layout whose first layer sorts images into bins, one for each neuron."""
    made = deepcopy(model)
    layers = [layer for layer in made.modules() if isinstance(layer, nn.Linear)]
    first, second = layers[0], layers[1]
    flat = data.test.images.reshape(len(data.test.images), -1)
    direction = torch.full((first.in_features,), 1 / first.in_features)
    levels = torch.quantile(flat @ direction, torch.linspace(0, 1, first.out_features + 2)[1:-1])
    with torch.no_grad():
        first.weight.copy_(_SMALL * direction.expand_as(first.weight))
        first.bias.copy_(-_SMALL * levels)
        second.weight.copy_(torch.linspace(-1, 1, second.out_features)[:, None].expand_as(second.weight))
    return made


def read_bins(view: ServerView, shape: tuple[int, ...]) -> Vectors:
    """Return the images, from 0 to 1, that the differences of neighboring neurons may be."""
    layer = first_dense(view.model)
    weight, bias = view.part(f"{layer}.weight").double(), view.part(f"{layer}.bias").double()
    # Thresholds ascend: a neuron sees all samples above its own, and the last one's bin has no upper end.
    weight = weight - torch.cat([weight[1:], torch.zeros_like(weight[:1])])
    bias = bias - torch.cat([bias[1:], torch.zeros_like(bias[:1])])
    used = bias.abs() > _NOISE * bias.abs().max()
    pixels = as_pixels(weight[used] / bias[used][:, None], view.black, view.white)
    inside = (pixels.min(axis=1) > -_TOLERANCE) & (pixels.max(axis=1) < 1 + _TOLERANCE) if len(pixels) else slice(0)
    return np.asarray(pixels[inside].clip(0, 1)).reshape(-1, *shape)
