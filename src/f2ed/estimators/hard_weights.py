"""Hard weights: a row counts fully or not at all."""

from dataclasses import replace
from typing import Annotated

import msgspec
import numpy as np

import f2ed.estimators as registry
from f2ed.core.errors import ConfigError
from f2ed.estimators._linalg.columns import weighted_median
from f2ed.estimators._linalg.rows import Rows
from f2ed.estimators.base import Estimate, Estimator, Weights
from f2ed.estimators.gram_rule import uniform

__all__ = ["HardWeights", "middle", "per_weight", "weights_of"]


class HardWeights(Estimator, frozen=True, tag="hard-weights"):
    """Reject the rows that the inner rule gives less than `share` of its median weight; average the others equally.

    A filter that takes weight away little by little leaves some of it to rows that it distrusts. A rejected row has
    none. The inner rule's error bound holds up to a constant: the rows kept have at least `share` of the median weight.
    """

    title = "Hard weights"
    family = "pre-aggregation"
    paper = "after FilterL2, Steinhardt, 2018"
    uses_previous = False
    weighted = True

    inner: "registry.AnyEstimator"
    share: Annotated[float, msgspec.Meta(gt=0.0, le=1.0)] = 0.5

    def estimate(self, rows: Rows) -> Estimate:
        """Weigh, choose and combine."""
        first = self.inner.estimate(rows)
        found = weights_of(first, "hard-weights", self.inner)
        each = per_weight(found, rows.prior)
        kept = np.flatnonzero(each >= self.share * middle(each, rows.prior))
        weights = uniform(kept, rows.n, rows.prior)
        return replace(first, mean=rows.combine(weights), weights=weights)


def per_weight(weights: Weights, prior: Weights | None) -> Weights:
    """Return what a row got for each unit of the weight that it counts with."""
    return weights if prior is None else weights / prior


def middle(values: Weights, prior: Weights | None) -> float:
    """Return the median over the rows, by the weights that they count with."""
    return float(np.median(values)) if prior is None else weighted_median(values, prior)


def weights_of(first: Estimate, kind: str, inner: Estimator | None) -> Weights:
    """Return the weights of the rows, or refuse an inner rule that chooses in each coordinate separately."""
    if first.weights is None:
        raise ConfigError(f"{kind}: {type(inner).__name__} weighs no rows; use a rule that does, as FilterL2")
    return first.weights
