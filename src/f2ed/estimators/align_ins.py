"""Sign and direction alignment of the rows (AlignIns, Xu et al., CVPR 2025)."""

from collections.abc import Iterator
from typing import Annotated

import msgspec
import numpy as np

from f2ed.core.arrays import Array, double, like, namespace, to_numpy
from f2ed.estimators._linalg.rows import Rows, Vector
from f2ed.estimators.base import Estimate, Estimator
from f2ed.estimators.gram_rule import uniform
from f2ed.estimators.hard_weights import middle

__all__ = ["AlignIns"]

_TO_SIGMA = 1.4826  # the standard deviation of a normal distribution over its median absolute deviation


class AlignIns(Estimator, frozen=True, tag="align-ins"):
    """Reject rows whose signs or direction deviate, clip the others to their median norm, and average them.

    Two scores of each row: the share of its magnitude that has the sign of the majority in its coordinate, and its
    cosine with the previous estimate, where there is one. A row is rejected if a score is more than `cutoff` standard
    deviations from the median of all rows. Three things differ from the paper: all coordinates count, by magnitude,
    instead of the largest; the direction is that of the last step, since a rule does not see the model; and the
    standard deviation comes from the median absolute deviation, since one far row inflates any other and hides the
    next. No bound on the error is known.
    """

    title = "AlignIns"
    family = "distance-based"
    paper = "Xu et al., CVPR 2025"
    weighted = True

    cutoff: Annotated[float, msgspec.Meta(gt=0.0)] = 1.0

    def estimate(self, rows: Rows) -> Estimate:
        """Score in one pass, and combine."""
        lengths = np.sqrt(rows.distances(None))
        deviation = np.max([_deviations(score, rows.prior) for score in _scores(rows, lengths)], axis=0)
        # If each score rejects what the other accepts, the row nearest both medians is left.
        kept = np.flatnonzero(deviation <= max(self.cutoff, float(deviation.min())))
        radius = middle(lengths[kept], None if rows.prior is None else rows.prior[kept])
        weights = uniform(kept, rows.n, rows.prior)
        passed = weights * np.divide(radius, lengths, out=np.ones(rows.n), where=lengths > radius)
        return Estimate(rows.combine(passed), weights, stopped=f"{rows.n - len(kept)} rows deviate")


def _scores(rows: Rows, lengths: Vector) -> list[Vector]:
    xp, previous, prior = namespace(rows.matrix), rows.previous, rows.prior

    def work(blocks: Iterator[slice]) -> Array:
        """Add up, for each row, what agrees in sign, all of it, and the product with the previous estimate."""
        total = 0.0
        for columns in blocks:
            block = rows.block(columns)
            if not bool(xp.isfinite(block).all()):
                continue  # the norms have found these rows already
            signs, sizes = xp.sign(block), xp.abs(block)
            majority = xp.sign(signs.sum(0) if prior is None else like(block, prior) @ signs)
            agreeing = xp.where(signs == majority, sizes, xp.zeros_like(sizes)).sum(1)
            along = agreeing * 0 if previous is None else block @ previous[columns]
            total = total + double(xp.stack([agreeing, sizes.sum(1), along]))
        return total

    agreeing, sizes, along = np.sum([to_numpy(part) for part in rows.walk(work)], axis=0)
    scores = [np.divide(agreeing, sizes, out=np.ones(rows.n), where=sizes > 0)]
    if previous is not None:
        scores.append(np.divide(along, lengths, out=np.ones(rows.n), where=lengths > 0))
    return scores


def _deviations(score: Vector, prior: Vector | None) -> Vector:
    """Return how many standard deviations each score is from the median; zero where it differs by rounding alone."""
    away = np.abs(score - middle(score, prior))
    away[away <= 1e-6 * np.abs(score).max()] = 0
    spread = _TO_SIGMA * middle(away, prior)
    return np.divide(away, spread, out=np.where(away > 0, np.inf, 0.0), where=spread > 0)
