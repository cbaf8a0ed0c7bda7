"""Was this image in a member's batch? From the shard mean, and from the model alone.

From the mean: the first dense layer's gradient is a sum of terms, each along one input, so that the inputs of all
samples lie in the space its rows span, and other images do not. From the model: what it was trained on has a lower
loss than what it was not (Yeom et al. 2018).
"""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from f2ed.audit.inversion import first_dense
from f2ed.audit.server_view import View
from f2ed.learning import Samples

__all__ = ["area", "caught", "loss_scores", "span_scores"]

Scores = NDArray[np.float64]


def span_scores(view: View, images: Tensor) -> Scores:
    """Return for each image how nearly it lies in the space of the mean's inputs: 0 is inside, -1 is far off.

    The bias counts as one more pixel that is always 1. The space has as many dimensions as samples went in, or fewer.
    """
    layer = first_dense(view.model)
    weight, bias = view.part(f"{layer}.weight").double(), view.part(f"{layer}.bias").double()
    _, sizes, directions = torch.linalg.svd(torch.cat([weight, bias[:, None]], dim=1), full_matrices=False)
    kept = min(view.samples, int((sizes > 1e-7 * sizes[0]).sum()))
    space = directions[:kept]
    flat = images.reshape(len(images), -1).double()
    inputs = torch.cat([flat, torch.ones(len(flat), 1, dtype=torch.float64)], dim=1)
    left = inputs - inputs @ space.T @ space
    return np.asarray(-(left.norm(dim=1) / inputs.norm(dim=1)).numpy())


def loss_scores(model: nn.Module, samples: Samples) -> Scores:
    """Return minus the loss of each sample."""
    with torch.no_grad():
        return np.asarray(-cross_entropy(model(samples.images), samples.labels, reduction="none").double().numpy())


def area(members: Scores, others: Scores) -> float:
    """Return the area under the curve: the chance that a member scores above another image. A coin gives 1/2."""
    order = np.sort(others)
    below, up_to = np.searchsorted(order, members, "left"), np.searchsorted(order, members, "right")
    return float((below + up_to).mean() / (2 * len(others)))


def caught(members: Scores, others: Scores, false_alarms: float = 0.01) -> float:
    """Return the share of members found where so many of the other images are taken for members."""
    threshold = np.quantile(others, 1 - false_alarms, method="higher")
    return float((members > threshold).mean())
