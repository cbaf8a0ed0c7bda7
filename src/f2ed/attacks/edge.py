"""An adaptive attack on variance filters, in closed form: as far from the mean as the filter accepts."""

import numpy as np

from f2ed.attacks._common.directions import Direction, gram_of, perturbation, unit
from f2ed.attacks._common.scene import Scene
from f2ed.attacks.base import Attack
from f2ed.core.arrays import Array
from f2ed.estimators import Estimator, FilterL2

__all__ = ["Edge", "edge_distance"]

_JUST_BELOW = 0.99


class Edge(Attack, frozen=True, tag="edge"):
    """Send one row as far from the honest mean as the variance bound of the filter in use allows.

    A share ε of the rows at distance z adds ε(1 - ε)z² to (1 - ε) times the honest variance. The bound is the one at
    which the FilterL2 in use stops, if it has a `sigma`. Any other estimator is treated as a filter that removes the
    largest outliers: the bound is just below the honest rows' own largest variance, so that they are removed first.
    """

    title = "Filter edge"
    family = "adaptive"
    paper = "after Choudhary et al., IEEE S&P 2024"

    direction: Direction = "mean"
    shard_aware: bool = True

    def craft(self, scene: Scene) -> Array:
        """Return one row for all malicious clients."""
        step = unit(perturbation(self.direction, scene))
        return scene.mean + edge_distance(scene, step) * step


def edge_distance(scene: Scene, step: Array) -> float:
    """Return how far along a unit vector the malicious rows can be before the filter in use removes them."""
    variance = float(np.square(scene.along(step)).mean())
    bound = _stops_at(scene.view.estimator)
    if bound is None:
        bound = _JUST_BELOW * float(np.linalg.eigvalsh(gram_of(scene.squares))[-1]) / len(scene.squares)
    share = min(scene.contamination, 0.5)
    room = max(bound - (1 - share) * variance, 0.0) / (share * (1 - share))
    return float(np.sqrt(room))


def _stops_at(estimator: Estimator | None) -> float | None:
    """Return the variance at which the filter in use, possibly inside a wrapper, stops."""
    while estimator is not None and not isinstance(estimator, FilterL2):
        estimator = getattr(estimator, "inner", None)
    if estimator is None or estimator.sigma is None:
        return None
    reached = estimator.eta * estimator.sigma**2
    return reached**0.5 if estimator.variant == "released" else reached
