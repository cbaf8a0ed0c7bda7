"""Directions away from the honest mean that attacks search along."""

from typing import Literal

import numpy as np
import numpy.typing as npt

from f2ed.attacks._common.scene import Scene
from f2ed.core.arrays import Array, like, namespace
from f2ed.estimators import widest

__all__ = ["Direction", "gram_of", "length", "perturbation", "unit"]

Direction = Literal["mean", "sign", "spread", "principal"]


def perturbation(kind: Direction, scene: Scene) -> Array:
    """Return the direction to add to the honest mean: minus the mean, its signs, the spread or the top component.

    "principal" is minus the unit mean plus the top principal component, oriented along the mean.
    """
    xp = namespace(scene.mean)
    match kind:
        case "mean":
            return -unit(scene.mean)
        case "sign":
            return -xp.sign(scene.mean)
        case "spread":
            return -scene.spread
        case "principal":
            return -unit(unit(scene.mean) + _top_component(scene))


def gram_of(squares: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return the Gram matrix about the mean, from squared distances: double centering."""
    means = squares.mean(0)
    return np.asarray(-0.5 * (squares - means - means[:, None] + means.mean()))


def length(vector: Array) -> float:
    """Return the Euclidean norm, summed in float64."""
    product = vector * vector
    return float(np.sqrt(float(product.sum(dtype=namespace(product).float64))))


def unit(vector: Array) -> Array:
    """Scale to norm one; a zero vector stays zero."""
    size = length(vector)
    return vector / size if size > 0 else vector * 0


def _top_component(scene: Scene) -> Array:
    along = widest(gram_of(scene.squares), np.ones(len(scene.squares))).along
    component = unit(like(scene.honest, along - along.mean()) @ scene.honest)
    return component if float(component @ scene.mean) >= 0 else -component
