"""A backdoor that stays where the estimator in use accepts it: adaptive attacks along the direction of a backdoor."""

from typing import Annotated, Literal

import msgspec
import numpy as np
import numpy.typing as npt

from f2ed.attacks._common.backdoor import SquareBackdoor
from f2ed.attacks._common.directions import gram_of, unit
from f2ed.attacks._common.scene import Scene
from f2ed.attacks._common.view import Knowledge
from f2ed.attacks.base import Positive
from f2ed.attacks.edge import edge_distance
from f2ed.attacks.oracle import best_distance
from f2ed.core.arrays import Array

__all__ = ["AdaptiveBackdoor"]


class AdaptiveBackdoor(SquareBackdoor, frozen=True, kw_only=True, tag="adaptive-backdoor"):
    """Send one row, from the honest mean toward the poisoned updates, as far as the estimator in use follows.

    With reach = "oracle" the distance is the best of `points` tries on the estimator, as in the attack of that name;
    with "edge" it is the one at which a variance filter would begin to remove the rows. `boost` multiplies it. `blind`
    is how much is removed of what no combination of honest rows could explain: at 1 the row differs from the mean only
    in directions in which honest rows differ, where a filter cannot tell them apart. With `disguise` each malicious row
    also gets a deviation of its own, drawn like those of the honest rows and as large at 1: equal rows would give
    themselves away to a rule that looks for rows that agree. With partial knowledge there is no honest mean to start
    from, and all send the mean of their own updates.
    """

    title = "Adaptive backdoor"
    family = "backdoor"
    paper = "after Shejwalkar and Houmansadr, NDSS 2021"

    knowledge: Knowledge = "full"
    shard_aware: bool = True
    boost: Positive = 1.0
    reach: Literal["oracle", "edge"] = "oracle"
    points: Annotated[int, msgspec.Meta(ge=2)] = 16
    blind: Annotated[float, msgspec.Meta(ge=0.0, le=1.0)] = 0.0
    disguise: Annotated[float, msgspec.Meta(ge=0.0, le=1.0)] = 0.0

    def craft(self, scene: Scene) -> Array:
        """Return one row for all malicious clients, or with a disguise one for each."""
        if scene.view.benign is None:
            return scene.own.mean(0)
        toward = scene.own.mean(0) - scene.mean
        if self.blind:
            toward = (1 - self.blind) * toward + self.blind * _explained(toward, scene)
        step = unit(toward)
        mix = self._disguise(scene)
        far = best_distance(scene, step, self.points, mix) if self.reach == "oracle" else edge_distance(scene, step)
        row = scene.mean + float(self.boost) * far * step
        return row if mix is None else row + scene.like(mix) @ (scene.honest - scene.mean)

    def _disguise(self, scene: Scene) -> npt.NDArray[np.float64] | None:
        """Return random combinations of the honest deviations, whose covariance is that of the honest rows."""
        if not self.disguise:
            return None
        drawn = scene.view.rng.standard_normal((scene.m, len(scene.honest)))
        return np.asarray(drawn * self.disguise / np.sqrt(len(scene.honest)))


def _explained(vector: Array, scene: Scene) -> Array:
    """Project onto the differences of the honest rows."""
    weights = np.linalg.pinv(gram_of(scene.squares), rcond=1e-6, hermitian=True) @ scene.along(vector)
    return scene.like(weights) @ (scene.honest - scene.mean)
