"""The estimator interface, and the estimate that it returns."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import msgspec
import numpy as np
import numpy.typing as npt

from f2ed.core.arrays import Array, as_matrix, one_blas_thread
from f2ed.core.errors import ConfigError, PluginError, SettingError
from f2ed.core.settings import Settings
from f2ed.estimators._linalg.gram import NotFiniteError
from f2ed.estimators._linalg.rows import Matrix, Rows
from f2ed.estimators.structures import stacked

__all__ = ["Estimate", "Estimator", "Family", "Weights", "spread_over"]

Weights = npt.NDArray[np.float64]
Family = Literal["baseline", "coordinate-wise", "distance-based", "spectral", "pre-aggregation"]


@dataclass(frozen=True, eq=False)
class Estimate:
    """A robust mean, with diagnostics.

    `weights` has one entry per input row, zero for rejected rows, and sums to one; it is None for rules that select
    rows in each coordinate separately. `excluded` lists the rows with NaN or Inf, or with values whose squares
    overflow.
    """

    mean: Array
    weights: Weights | None = None
    eigenvalue: float | None = None
    iterations: int = 0
    stopped: str = ""
    excluded: tuple[int, ...] = ()
    reputation: Weights | None = None
    """What a rule with a memory wants to be given with the same rows next time, one entry per row; else None."""


class Estimator(Settings, frozen=True, tag_field="kind", forbid_unknown_fields=True, repr_omit_defaults=True):
    """A robust mean of the rows of a matrix: a frozen value whose fields are its settings."""

    title: ClassVar[str]
    """What tables and figures call it."""
    family: ClassVar[Family]
    paper: ClassVar[str]
    """Who proposed it, and when."""
    uses_root: ClassVar[bool] = False
    """Whether it needs a trusted update."""
    uses_previous: ClassVar[bool] = True
    """Whether it reads the last estimate; False spares the server a vector of the model's size between two rounds."""
    weighted: ClassVar[bool] = False
    """Whether it takes rows that count with different weights; a wrapper does if its inner rule does."""

    def __call__(
        self,
        updates: Array,
        *,
        previous: Array | None = None,
        root: Array | None = None,
        reputation: Weights | None = None,
        tensors: Sequence[int] | None = None,
        rng: np.random.Generator | None = None,
        weights: Sequence[float] | Weights | None = None,
    ) -> Estimate:
        """Estimate the mean of the honest rows of `updates` [n, d].

        The mean is NumPy or torch like the input, on the same device. `previous` is the last estimate, for rules that
        start from it; `root` is a trusted update [d], such as the server's own on a small data set that it has checked;
        `reputation` is what the last estimate returned for the same rows, in their order; `tensors` are the sizes of
        the model's parameter tensors, for rules that treat each separately; `rng` is for randomized rules, which
        without it make the same choices in every call.

        `weights` say how much each row counts, as the number of samples behind it; only their ratios matter. A number
        of malicious rows still counts rows: the heaviest are assumed to be among them.
        """
        matrix, restore = as_matrix(updates)
        previous, root = (None if each is None else as_matrix(each[None])[0][0] for each in (previous, root))
        prior = None if weights is None else self._prior(weights, len(matrix))
        rows = Matrix(
            matrix, previous=previous, root=root, reputation=reputation, tensors=tensors, rng=rng, prior=prior
        )
        # One BLAS thread: faster for small matrices, and no sum depends on the number of threads.
        with one_blas_thread(), np.errstate(over="ignore", invalid="ignore"):
            estimate = _checked(self, _without_bad_rows(self, rows), rows)
        return replace(estimate, mean=restore(estimate.mean), weights=_summing_to_one(estimate.weights))

    def takes_weights(self) -> bool:
        """Return whether rows may count with different weights, here and in the inner rule."""
        inner = getattr(self, "inner", None)
        return self.weighted and (inner is None or inner.takes_weights())

    def _prior(self, weights: Sequence[float] | Weights, n: int) -> Weights | None:
        """Check the weights of the rows; return None where they are equal, which is the same as none."""
        try:
            prior = np.asarray(weights, np.float64)
        except (TypeError, ValueError):
            raise ConfigError(f"weights of {n} rows must be {n} positive numbers; found {weights!r}") from None
        if prior.shape != (n,) or not (np.isfinite(prior).all() and (prior > 0).all()):
            raise ConfigError(f"weights of {n} rows must be {n} positive numbers; found {np.asarray(weights).tolist()}")
        if (prior == prior[0]).all():
            return None
        if not self.takes_weights():
            raise ConfigError(
                f"{self.title} is not defined for rows of different weights; use another rule, such as FilterL2, or "
                "leave the weights out"
            )
        return prior

    def aggregate(self, updates: Sequence[Any], *, rng: np.random.Generator | None = None) -> Any:
        """Return the robust mean of a list of updates in the structure of one update, without diagnostics.

        An update is an array of any shape, a state dict, or dictionaries, lists and tuples of arrays. Floating-point
        arrays are averaged, and integers replaced by their median.
        """
        rows, tensors, restore = stacked(updates)
        return restore(self(rows, tensors=tensors, rng=rng).mean)

    @classmethod
    def checked(cls, name: str, given: Any, hint: Any) -> Any:
        """Take any estimator as the inner rule, also one that is not in the registry."""
        if name != "inner" or given is None:
            return super().checked(name, given, hint)
        if not isinstance(given, Estimator):
            raise SettingError(f"inner: expected an estimator, such as Mean() (found {given!r})")
        return given

    def needs_root(self) -> bool:
        """Return whether the rule, or one inside it, needs a trusted update."""
        inner = getattr(self, "inner", None)
        return type(self).uses_root or (inner is not None and inner.needs_root())

    def needs_previous(self) -> bool:
        """Return whether the rule, or one inside it, reads the last estimate."""
        inner = getattr(self, "inner", None)
        return type(self).uses_previous or (inner is not None and inner.needs_previous())

    @abstractmethod
    def estimate(self, rows: Rows) -> Estimate:
        """Estimate from rows that are known to be well formed: the plug-in's own work."""

    def assumed_f(self, n: int) -> int | None:
        """Return how many of n rows the rule assumes to be malicious; None where it assumes no number."""
        inner = getattr(self, "inner", None)
        return inner.assumed_f(self.inner_rows(n, msgspec.structs.asdict(self))) if inner is not None else None

    @classmethod
    def inner_rows(cls, n: int, settings: Mapping[str, Any]) -> int:  # noqa: ARG003  most wrappers keep the rows
        """Return how many rows the inner rule sees of n, if the wrapper has these settings."""
        return n


def _without_bad_rows(estimator: Estimator, rows: Rows) -> Estimate:
    """Estimate; if some rows turn out not to be finite, exclude them and estimate again."""
    state = rows.rng.bit_generator.state
    try:
        return estimator.estimate(rows)
    except NotFiniteError:
        bad = rows.not_finite()
        rows.rng.bit_generator.state = state
    kept = np.setdiff1d(np.arange(rows.n), bad)
    if not kept.size:
        raise ConfigError(f"none of the {rows.n} rows is finite (NaN, Inf or overflow in each): nothing to average")
    estimate = estimator.estimate(rows.select(kept))
    weights, reputation = (spread_over(each, kept, rows.n) for each in (estimate.weights, estimate.reputation))
    return replace(estimate, weights=weights, reputation=reputation, excluded=tuple(map(int, bad)))


def _checked(estimator: Estimator, found: object, rows: Rows) -> Estimate:
    """Return what the rule found, or say what a rule of your own did not keep to."""
    wanted = f"it must return an Estimate whose mean has {rows.d} coordinates, and {rows.n} weights or None"
    name = type(estimator).__name__
    if not isinstance(found, Estimate):
        raise PluginError(f"{name}.estimate returned a {type(found).__name__}; {wanted}")
    for what, given, length in (("a mean", found.mean, rows.d), ("weights", found.weights, rows.n)):
        if given is not None and (shape := getattr(given, "shape", None)) != (length,):
            described = f"of shape {tuple(shape)}" if shape is not None else f"that is a {type(given).__name__}"
            raise PluginError(f"{name}.estimate returned {what} {described}; {wanted}")
    return found


def spread_over(values: Weights | None, kept: npt.NDArray[np.intp], n: int) -> Weights | None:
    """Return the values of the kept rows in their places among n rows, zero for the others."""
    if values is None:
        return None
    everyone = np.zeros(n)
    everyone[kept] = values
    return everyone


def _summing_to_one(weights: Weights | None) -> Weights | None:
    """Add the rounding error to the largest weights, so that the sum is exactly one."""
    if weights is None:
        return None
    weights = weights.copy()
    for largest in (*np.argsort(-weights)[:16], *np.argsort(-weights)[:16]):
        if (left := 1 - weights.sum()) == 0:
            break
        weights[largest] += left
    return weights
