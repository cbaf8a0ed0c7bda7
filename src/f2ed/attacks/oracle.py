"""An adaptive attack that queries the estimator in use before it sends (after Shejwalkar and Houmansadr, NDSS 2021)."""

from collections.abc import Callable
from typing import Annotated

import msgspec
import numpy as np
import numpy.typing as npt

from f2ed.attacks._common.directions import Direction, gram_of, perturbation, unit
from f2ed.attacks._common.scene import Scene
from f2ed.attacks.base import Attack
from f2ed.core.arrays import Array, namespace
from f2ed.estimators import GramRule

__all__ = ["Oracle", "best_distance", "estimate_with"]

Mix = npt.NDArray[np.float64]
_REACH = (0.02, 20.0)  # of the honest rows' root mean square distance from their mean


class Oracle(Attack, frozen=True, tag="oracle"):
    """Send one row at the distance from the honest mean that moves the estimator in use farthest.

    It tries `points` distances along one `direction` and keeps the best. For rules on the Gram matrix a trial does not
    touch the vectors; any other rule costs one estimate per trial. It targets the rows that the estimator sees, so it
    is shard-aware by default. With partial knowledge its own updates, repeated, stand in for the honest rows.
    """

    title = "Oracle"
    family = "adaptive"
    paper = "after Shejwalkar and Houmansadr, NDSS 2021"

    direction: Direction = "mean"
    points: Annotated[int, msgspec.Meta(ge=2)] = 16
    shard_aware: bool = True

    def craft(self, scene: Scene) -> Array:
        """Return one row for all malicious clients."""
        step = unit(perturbation(self.direction, scene))
        return scene.mean + best_distance(scene, step, self.points) * step


def best_distance(scene: Scene, step: Array, points: int, disguise: Mix | None = None) -> float:
    """Return the distance along a unit vector at which the malicious rows move the estimator in use farthest.

    `disguise` [m, honest] are combinations of the honest rows' deviations from their mean, added to the malicious rows.
    """
    reach = np.sqrt(scene.squares.mean() / 2)
    tried = reach * np.geomspace(*_REACH, points)
    mix = np.zeros((scene.m, len(scene.honest))) if disguise is None else disguise
    return float(max(tried, key=_gain(scene, step, mix)))


def _gain(scene: Scene, step: Array, mix: Mix) -> Callable[[float], float]:
    """Return a function from a distance to how far it moves the estimate along the step."""
    rule = scene.view.estimator
    return _gain_by_gram(scene, step, mix, rule) if isinstance(rule, GramRule) else _gain_by_rows(scene, step, mix)


def _stand_ins(scene: Scene) -> npt.NDArray[np.intp]:
    """Return the indices of honest rows, repeated to n - m of them."""
    return np.arange(scene.n - scene.m) % len(scene.honest)


def _prior(scene: Scene) -> npt.NDArray[np.float64] | None:
    """Return the weights of all rows; None where they are equal."""
    if scene.weights is None:
        return None
    honest, own = scene.weights
    every = np.concatenate([honest[_stand_ins(scene)], own])
    return None if (every == every[0]).all() else every


def _gain_by_gram(scene: Scene, step: Array, mix: Mix, rule: GramRule) -> Callable[[float], float]:
    """Compute the gain from inner products alone."""
    rows = _stand_ins(scene)
    every = scene.along(step)
    among, hidden, along = gram_of(scene.squares), mix @ every, every[rows]
    gram = np.zeros((scene.n, scene.n))
    honest, prior = len(rows), _prior(scene)
    gram[:honest, :honest] = among[np.ix_(rows, rows)]
    across, within = (mix @ among)[:, rows], mix @ among @ mix.T

    def gain(distance: float) -> float:
        gram[honest:, :honest] = distance * along + across
        gram[:honest, honest:] = gram[honest:, :honest].T
        gram[honest:, honest:] = distance**2 + distance * (hidden[:, None] + hidden) + within
        weights = (rule.weigh(gram) if prior is None else rule.weigh(gram, prior)).weights
        return float(weights[:honest] @ along + weights[honest:] @ (distance + hidden))

    return gain


def _gain_by_rows(scene: Scene, step: Array, mix: Mix) -> Callable[[float], float]:
    """Compute the gain by running the estimator."""
    about = scene.mean + scene.like(mix) @ (scene.honest - scene.mean) if mix.any() else scene.mean
    return lambda distance: float((estimate_with(scene, about + distance * step) - scene.mean) @ step)


def estimate_with(scene: Scene, sent: Array) -> Array:
    """Return what the estimator in use makes of the honest rows and these malicious ones, [m, d] or one for all."""
    honest, view = scene.honest[_stand_ins(scene)], scene.view
    rows = namespace(honest).concatenate([honest, scene.own])
    rows[len(honest) :] = sent
    known = {"previous": view.previous, "root": scene.mean}
    return view.estimator(rows, tensors=view.tensors, weights=_prior(scene), **known).mean
