"""Mean of the nearest neighbors of a trusted row (MoNNA, Farhadkhani et al., ICML 2023)."""

from typing import Annotated

import msgspec
import numpy as np

from f2ed.core.errors import ConfigError
from f2ed.estimators._linalg.rows import Rows
from f2ed.estimators.base import Estimate
from f2ed.estimators.bounded import BoundedEstimator
from f2ed.estimators.gram_rule import uniform

__all__ = ["MoNNA"]


class MoNNA(BoundedEstimator, frozen=True, tag="mo-nna"):
    """Average the n - f rows nearest a row known to be honest: the server's own, or a peer's."""

    title = "MoNNA"
    family = "distance-based"
    paper = "Farhadkhani et al., ICML 2023"
    uses_previous = False
    weighted = True

    trusted: Annotated[int, msgspec.Meta(ge=0)] = 0

    def estimate(self, rows: Rows) -> Estimate:
        """Measure the distances from the trusted row in one direct pass."""
        if self.trusted >= rows.n:
            raise ConfigError(f"trusted = {self.trusted}, but the rows are 0 to {rows.n - 1}")
        squares = rows.distances(lambda columns: rows.block(columns)[self.trusted])
        keep = rows.n - self.tolerated(rows.n)
        weights = uniform(np.argsort(squares, kind="stable")[:keep], rows.n, rows.prior)
        return Estimate(rows.combine(weights), weights)
