"""Membership inference: was this image in a member's batch? From the shard mean, and from the model alone.

From the mean: the gradient of the first dense layer is a sum of terms, each along one input, so the inputs of all
samples lie in the span of its rows, and other images do not. From the model: samples it was trained on have a lower
loss than others (Yeom et al. 2018).
"""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from f2ed.audit.inversion import first_dense
from f2ed.audit.server_view import ServerView
from f2ed.learning import Samples

__all__ = ["auc", "loss_scores", "span_scores", "true_positive_rate"]

Scores = NDArray[np.float64]


def span_scores(view: ServerView, images: Tensor) -> Scores:
    """Return minus the relative distance of each image to the span of the mean's inputs: 0 is inside, -1 far away.

    The bias counts as one more pixel that is always 1. The span has at most as many dimensions as there are samples.
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


def auc(members: Scores, others: Scores) -> float:
    """Return the area under the ROC curve: the probability that a member scores above a non-member; 1/2 is chance."""
    order = np.sort(others)
    below, up_to = np.searchsorted(order, members, "left"), np.searchsorted(order, members, "right")
    return float((below + up_to).mean() / (2 * len(others)))


def true_positive_rate(members: Scores, others: Scores, false_positive_rate: float = 0.01) -> float:
    """Return the share of members detected at this false positive rate."""
    threshold = np.quantile(others, 1 - false_positive_rate, method="higher")
    return float((members > threshold).mean())
