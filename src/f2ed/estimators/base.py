"""What every estimator is, and what it answers."""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, Literal

import msgspec
import numpy as np
import numpy.typing as npt

from f2ed.core.arrays import Array, as_matrix, one_blas_thread
from f2ed.core.errors import ConfigError
from f2ed.estimators._linalg.gram import NotFiniteError
from f2ed.estimators._linalg.rows import Matrix, Rows

__all__ = ["Estimate", "Estimator", "Family", "Fraction", "Weights", "within", "withstood"]

Weights = npt.NDArray[np.float64]
Fraction = Annotated[float, msgspec.Meta(ge=0.0, lt=0.5)]
Family = Literal["baseline", "coordinate-wise", "distance-based", "spectral", "pre-aggregation"]


@dataclass(frozen=True, eq=False)
class Estimate:
    """A robust mean, and what the estimator saw on the way.

    `weights` has one entry per row given in, zero for rows not believed, and sums to one; it is None
    for rules that choose anew in each coordinate. `excluded` names the rows that held NaN or Inf,
    or numbers whose squares overflow.
    """

    mean: Array
    weights: Weights | None = None
    eigenvalue: float | None = None
    iterations: int = 0
    stopped: str = ""
    excluded: tuple[int, ...] = ()


class Estimator(msgspec.Struct, frozen=True, tag_field="kind", forbid_unknown_fields=True):
    """A robust mean of the rows of a matrix: a frozen value whose fields are its settings."""

    title: ClassVar[str]
    """What tables and figures call it."""
    family: ClassVar[Family]
    paper: ClassVar[str]
    """Who proposed it, and when."""

    def __call__(
        self,
        updates: Array,
        *,
        previous: Array | None = None,
        tensors: Sequence[int] | None = None,
        rng: np.random.Generator | None = None,
    ) -> Estimate:
        """Estimate the mean of the honest rows of `updates` [n, d].

        NumPy or torch comes in, the same goes out, on the same device. `previous` is the last answer,
        for rules that start from it; `tensors` the sizes of the model's parameter tensors, for rules
        that work on each alone; `rng` serves rules that draw lots, which without it draw the same
        lots every time.
        """
        matrix, restore = as_matrix(updates)
        previous = None if previous is None else as_matrix(previous[None])[0][0]
        rows = Matrix(matrix, previous=previous, tensors=tensors, rng=rng)
        # One thread of BLAS: small matrices do better so, and no sum depends on how many there are.
        with one_blas_thread(), np.errstate(over="ignore", invalid="ignore"):
            estimate = _without_bad_rows(self, rows)
        return replace(estimate, mean=restore(estimate.mean), weights=_summing_to_one(estimate.weights))

    @abstractmethod
    def estimate(self, rows: Rows) -> Estimate:
        """Answer for rows that are known to be well formed; the plug-in's own work."""


def _without_bad_rows(estimator: Estimator, rows: Rows) -> Estimate:
    """Estimate; if a row turns out not to be finite, leave such rows out and say so."""
    lots = rows.rng.bit_generator.state
    try:
        return estimator.estimate(rows)
    except NotFiniteError:
        bad = rows.not_finite()
        rows.rng.bit_generator.state = lots
    kept = np.setdiff1d(np.arange(rows.n), bad)
    if not kept.size:
        raise ConfigError(f"none of the {rows.n} rows is finite (NaN, Inf or overflow in each): nothing to average")
    estimate = estimator.estimate(rows.select(kept))
    weights = None
    if estimate.weights is not None:
        weights = np.zeros(rows.n)
        weights[kept] = estimate.weights
    return replace(estimate, weights=weights, excluded=tuple(map(int, bad)))


def _summing_to_one(weights: Weights | None) -> Weights | None:
    """Let the largest weight take up what rounding left, so that the sum is one to the last bit."""
    if weights is None:
        return None
    weights = weights.copy()
    for _ in range(4):
        if (left := 1 - weights.sum()) == 0:
            break
        weights[weights.argmax()] += left
    return weights


def withstood(contamination: float, n: int) -> int:
    """Return the number of rows, floor(contamination n), that a rule must withstand (0.29 of 100 is 29, not 28)."""
    return int(contamination * n + 1e-9)


def within(rule: str, contamination: float, n: int, largest: int, needs: str) -> int:
    """Return floor(contamination n), or refuse it where it is more than the `largest` number the rule can withstand."""
    asked = withstood(contamination, n)
    if asked > largest:
        what = f"f = {largest}, contamination = {largest / n:.3g}" if largest >= 0 else "none: there are too few rows"
        raise ConfigError(
            f"{rule} tolerates f of n rows only if {needs}; contamination = {contamination:g} of {n} is f = {asked}; "
            f"the largest that works is {what}"
        )
    return asked
