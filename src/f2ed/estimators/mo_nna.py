"""Mean of the nearest neighbors of a trusted row (MoNNA, Farhadkhani et al., ICML 2023)."""

from typing import Annotated

import msgspec
import numpy as np

from f2ed.core.errors import ConfigError
from f2ed.estimators._linalg.rows import Rows
from f2ed.estimators.base import Estimate, Estimator, Fraction, withstood
from f2ed.estimators.gram_rule import uniform

__all__ = ["MoNNA"]


class MoNNA(Estimator, frozen=True, tag="mo-nna"):
    """Average the n - f rows nearest a row that is known to be honest: the server's own, or a peer's."""

    title = "MoNNA"
    family = "distance-based"
    paper = "Farhadkhani et al., ICML 2023"

    contamination: Fraction
    trusted: Annotated[int, msgspec.Meta(ge=0)] = 0

    def estimate(self, rows: Rows) -> Estimate:
        """Measure the distances from the trusted row in one direct pass."""
        if self.trusted >= rows.n:
            raise ConfigError(f"row {self.trusted} is trusted, but there are only {rows.n} rows (0 to {rows.n - 1})")
        squares = rows.distances(lambda columns: rows.block(columns)[self.trusted])
        keep = rows.n - withstood(self.contamination, rows.n)
        weights = uniform(np.argsort(squares, kind="stable")[:keep], rows.n)
        return Estimate(rows.combine(weights), weights)
