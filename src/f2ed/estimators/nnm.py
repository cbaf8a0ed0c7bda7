"""Nearest-neighbor mixing (NNM, Allouah et al., AISTATS 2023)."""

from dataclasses import replace

import numpy as np

import f2ed.estimators as registry
from f2ed.estimators._linalg.rows import Rows
from f2ed.estimators.base import Estimate
from f2ed.estimators.bounded import BoundedEstimator

__all__ = ["NNM"]


class NNM(BoundedEstimator, frozen=True, kw_only=True, tag="nnm"):
    """Replace each row by the mean of its n - f nearest rows, itself among them, before the inner rule."""

    title = "NNM"
    family = "pre-aggregation"
    paper = "Allouah et al., AISTATS 2023"

    inner: "registry.AnyEstimator"

    def estimate(self, rows: Rows) -> Estimate:
        """Mix by the distances in the Gram matrix; an inner rule that also needs it costs no second pass."""
        keep = rows.n - self.tolerated(rows.n)
        nearest = np.argsort(rows.squares, axis=1, kind="stable")[:, :keep]
        mixing = np.zeros((rows.n, rows.n))
        np.put_along_axis(mixing, nearest, 1 / keep, axis=1)
        inner = self.inner.estimate(rows.mix(mixing))
        return inner if inner.weights is None else replace(inner, weights=inner.weights @ mixing)
