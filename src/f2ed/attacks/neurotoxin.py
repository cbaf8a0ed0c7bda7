"""Neurotoxin, a backdoor in the weights that honest clients hardly change (Zhang et al., ICML 2022)."""

from typing import Annotated

import msgspec
import numpy as np

from f2ed.attacks._common.backdoor import SquareBackdoor
from f2ed.attacks._common.training import MaliciousClients, TrainingOverrides
from f2ed.attacks.base import Positive
from f2ed.core.arrays import Array, namespace

__all__ = ["Neurotoxin", "seldom_changed", "smallest"]


class Neurotoxin(SquareBackdoor, frozen=True, kw_only=True, tag="neurotoxin"):
    """Train a backdoor into the share `ratio` of weights with the smallest gradients on clean data, so that it lasts.

    The gradient is that of the client's own clean data at the global model. `radius` bounds the norm of the update
    before any boost.
    """

    title = "Neurotoxin"
    family = "backdoor"
    paper = "Zhang et al., ICML 2022"

    ratio: Annotated[float, msgspec.Meta(gt=0.0, le=1.0)] = 0.95
    radius: Positive | None = None

    def train(self, clients: MaliciousClients) -> Array:
        """Find the weights with small gradients, train only them, and clip the update."""
        mask = seldom_changed(clients, self.ratio)
        update = clients.train(self.poison(clients), overrides=self.overrides, mask=mask)
        return update if self.radius is None else _clipped(update, self.radius)


def seldom_changed(clients: MaliciousClients, ratio: float) -> Array:
    """Return a mask of the share of weights that each client's clean data would change least."""
    everything = max(len(data.labels) for data in clients.data)
    # One plain step of size one over all images is the negative gradient.
    one_step = TrainingOverrides(
        epochs=1, lr=1.0, momentum=0.0, weight_decay=0.0, batch_size=everything, optimizer="sgd"
    )
    return smallest(clients.train(clients.data, overrides=one_step), ratio)


def smallest(gradients: Array, ratio: float) -> Array:
    """Return a mask of the share of coordinates with the smallest magnitude in each row, ties included."""
    sizes = abs(gradients)
    kept = max(round(ratio * sizes.shape[1]), 1)
    if isinstance(sizes, np.ndarray):
        limits = np.partition(sizes, kept - 1, axis=1)[:, kept - 1 : kept]
    else:
        limits = sizes.kthvalue(kept, dim=1, keepdim=True).values
    return sizes <= limits


def _clipped(update: Array, radius: float) -> Array:
    xp = namespace(update)
    lengths = xp.sqrt(xp.einsum("ij,ij->i", update, update))[:, None]
    return update * xp.where(lengths > radius, radius / lengths, xp.ones_like(lengths))
