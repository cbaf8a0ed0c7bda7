"""Hard weights: a row counts fully or not at all."""

from dataclasses import replace
from typing import Annotated

import msgspec
import numpy as np

import f2ed.estimators as registry
from f2ed.core.errors import ConfigError
from f2ed.estimators._linalg.rows import Rows
from f2ed.estimators.base import Estimate, Estimator, Weights
from f2ed.estimators.gram_rule import uniform

__all__ = ["HardWeights", "weights_of"]


class HardWeights(Estimator, frozen=True, tag="hard-weights"):
    """Reject the rows that the inner rule gives less than `share` of its median weight; average the others equally.

    A filter that takes weight away little by little leaves some of it to rows that it distrusts. A rejected row has
    none. The inner rule's error bound holds up to a constant: the rows kept have at least `share` of the median weight.
    """

    title = "Hard weights"
    family = "pre-aggregation"
    paper = "after FilterL2, Steinhardt, 2018"
    uses_previous = False

    inner: "registry.AnyEstimator"
    share: Annotated[float, msgspec.Meta(gt=0.0, le=1.0)] = 0.5

    def estimate(self, rows: Rows) -> Estimate:
        """Weigh, choose and combine."""
        first = self.inner.estimate(rows)
        found = weights_of(first, "hard-weights", self.inner)
        weights = uniform(np.flatnonzero(found >= self.share * np.median(found)), rows.n)
        return replace(first, mean=rows.combine(weights), weights=weights)


def weights_of(first: Estimate, kind: str, inner: Estimator | None) -> Weights:
    """Return the weights of the rows, or refuse an inner rule that chooses in each coordinate separately."""
    if first.weights is None:
        raise ConfigError(f"{kind}: {type(inner).__name__} weighs no rows; use a rule that does, as FilterL2")
    return first.weights
