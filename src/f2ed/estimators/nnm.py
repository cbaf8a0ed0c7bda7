"""Nearest-neighbor mixing (NNM, Allouah et al., AISTATS 2023)."""

from dataclasses import replace

import numpy as np

import f2ed.estimators as registry
from f2ed.estimators._linalg.rows import Rows, Vector
from f2ed.estimators.base import Estimate
from f2ed.estimators.bounded import BoundedEstimator
from f2ed.estimators.krum import nearest_weights

__all__ = ["NNM"]


class NNM(BoundedEstimator, frozen=True, kw_only=True, tag="nnm"):
    """Replace each row by the mean of its n - f nearest rows, itself among them, before the inner rule."""

    title = "NNM"
    family = "pre-aggregation"
    paper = "Allouah et al., AISTATS 2023"
    uses_previous = False
    weighted = True

    inner: "registry.AnyEstimator"

    def estimate(self, rows: Rows) -> Estimate:
        """Mix by the distances in the Gram matrix; an inner rule that also needs it costs no second pass."""
        mixing = self._mixing(rows)
        inner = self.inner.estimate(rows.mix(mixing, rows.prior))
        return inner if inner.weights is None else replace(inner, weights=inner.weights @ mixing)

    def _mixing(self, rows: Rows) -> Vector:
        """Weigh the nearest rows alike, or by their weights: all the weight but that of the f heaviest rows."""
        if rows.prior is not None:
            total = float(rows.prior.sum()) - self.tolerated_weight(rows.prior)
            return nearest_weights(rows.squares, rows.prior, total) / total
        keep = rows.n - self.tolerated(rows.n)
        nearest = np.argsort(rows.squares, axis=1, kind="stable")[:, :keep]
        mixing = np.zeros((rows.n, rows.n))
        np.put_along_axis(mixing, nearest, 1 / keep, axis=1)
        return mixing
