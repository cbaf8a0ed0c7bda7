"""A sign vote in every coordinate (robust learning rate, RLR, Ozdayi et al., AAAI 2021)."""

from dataclasses import replace
from typing import Annotated, Literal

import msgspec
import numpy as np

import f2ed.estimators as registry
from f2ed.core.arrays import Array, like, namespace
from f2ed.estimators._linalg.rows import Rows
from f2ed.estimators.base import Estimate, Estimator

__all__ = ["SignVote"]


class SignVote(Estimator, frozen=True, tag="sign-vote"):
    """Take the inner rule's mean only where the signs of the rows agree.

    A coordinate whose signs sum to less than `agreement` times the number of rows, or times their weight, is left as
    it is (`below = "zero"`), or moves the other way, as in RLR (`"reverse"`). Rows that the inner rule rejects have no
    vote.

    No bound on the error is kept: honest rows that disagree about a coordinate lose it, and a reversed coordinate lets
    a minority of malicious rows choose its direction.
    """

    title = "Sign vote"
    family = "pre-aggregation"
    paper = "Ozdayi, Kantarcioglu and Gel, AAAI 2021"
    uses_previous = False
    weighted = True

    inner: "registry.AnyEstimator"
    agreement: Annotated[float, msgspec.Meta(ge=0.0, le=1.0)] = 1 / 3
    below: Literal["zero", "reverse"] = "zero"

    def estimate(self, rows: Rows) -> Estimate:
        """Count the signs in one pass more."""
        first = self.inner.estimate(rows)
        voters = rows if first.weights is None else rows.select(np.flatnonzero(first.weights))
        xp, prior = namespace(rows.matrix), voters.prior
        needed = self.agreement * (voters.n if prior is None else float(prior.sum())) * (1 - 1e-6)

        def agreed(block: Array) -> Array:
            signs = xp.sign(block)
            return xp.abs(signs.sum(0) if prior is None else like(block, prior) @ signs)

        otherwise = -first.mean if self.below == "reverse" else xp.zeros_like(first.mean)
        return replace(first, mean=xp.where(voters.fill(agreed) >= needed, first.mean, otherwise))
