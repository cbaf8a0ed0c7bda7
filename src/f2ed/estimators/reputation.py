"""Memory over rounds: a row whose weight keeps falling is rejected."""

from dataclasses import replace
from typing import Annotated

import msgspec
import numpy as np

import f2ed.estimators as registry
from f2ed.core.errors import ConfigError
from f2ed.estimators._linalg.rows import Rows
from f2ed.estimators.base import Estimate, Estimator
from f2ed.estimators.hard_weights import middle, per_weight, weights_of

__all__ = ["Reputation"]


class Reputation(Estimator, frozen=True, tag="reputation"):
    """Average each row's weight over the rounds, and reject the rows with less than half of the median average.

    A weight counts as a share of the round's median weight, at most 1: honest behavior in many rounds earns no credit
    beyond that of every honest row. A row that is new has reputation 1. Nothing is subtracted for a deviation that
    persists: an attacker that deviates in the same way from the first round on would be taken for heterogeneity.

    The bound of the inner rule holds in each round for the rows that are left, as long as most of them are honest.
    """

    title = "Reputation"
    family = "pre-aggregation"
    paper = "after FoolsGold, Fung et al., RAID 2020"
    uses_previous = False
    weighted = True

    inner: "registry.AnyEstimator"
    decay: Annotated[float, msgspec.Meta(ge=0.0, lt=1.0)] = 0.9

    def estimate(self, rows: Rows) -> Estimate:
        """Weigh, remember and combine."""
        if not rows.separate:
            raise ConfigError("reputation: rows that are mixed or cut have no memory; put it outside that wrapper")
        first = self.inner.estimate(rows)
        weights = weights_of(first, "reputation", self.inner)
        before = np.ones(rows.n) if rows.reputation is None else rows.reputation
        each = per_weight(weights, rows.prior)
        now = np.minimum(each / max(middle(each, rows.prior), float(each.max()) / rows.n), 1)
        after = self.decay * before + (1 - self.decay) * now
        left = np.where(after >= middle(after, rows.prior) / 2, weights, 0.0)
        weights = left / left.sum() if left.any() else weights
        return replace(first, mean=rows.combine(weights), weights=weights, reputation=after)
