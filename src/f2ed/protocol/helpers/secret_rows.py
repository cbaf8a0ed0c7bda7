"""Rows that nobody holds: an estimator may see their Gram matrix and open one sum of some of them.

Any rule that weighs rows by their Gram matrix runs unchanged. Its weights become 0 or 1: weights of several sizes
would show a client's low digits in the sum.
"""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from f2ed.core.arrays import Array
from f2ed.core.errors import ConfigError
from f2ed.estimators import NNM, Estimator, GramRule, Krum, Mean, Rows

__all__ = ["Opener", "SecretRows", "check_rule", "zero_or_one"]

Opener = Callable[[npt.NDArray[np.bool_]], Array]
"""Returns the mean of the kept rows, or an empty vector where only others may see it."""


class SecretRows(Rows):
    """n rows of d columns of which only the Gram matrix is known."""

    def __init__(self, gram: npt.NDArray[np.float64], opener: Opener, *, coordinates: int) -> None:
        self.n, self.matrix = len(gram), np.broadcast_to(np.float32(0), (len(gram), coordinates))
        self.previous, self.tensors, self.rng = None, None, np.random.default_rng(0)
        self.root, self.reputation, self.prior = None, None, None
        self.kept: npt.NDArray[np.bool_] | None = None
        """The rows in the sum, once it was asked for."""
        self.weights: npt.NDArray[np.float64] | None = None
        """The weights that the rule wanted."""
        self._gram, self._open = gram, opener

    @property
    def gram(self) -> npt.NDArray[np.float64]:
        """The Gram matrix."""
        return self._gram

    def block(self, columns: slice) -> Array:  # noqa: ARG002  the interface
        """Refuse: no coordinate is known."""
        raise _needs_coordinates()

    def section(self, columns: slice | npt.NDArray[np.intp]) -> Rows:  # noqa: ARG002  the interface
        """Refuse: no coordinate is known."""
        raise _needs_coordinates()

    def combine(self, weights: npt.NDArray[np.float64]) -> Array:
        """Open the mean of the rows with at least half the median weight; once, since two sums differ by clients."""
        if self.kept is not None:
            raise ConfigError("a rule that opens two sums; from secret rows one is opened, of the rows that it keeps")
        self.weights, self.kept = weights, zero_or_one(weights)
        return self._open(self.kept)


def zero_or_one(weights: npt.NDArray[np.float64]) -> npt.NDArray[np.bool_]:
    """Return which rows have at least half the median of the positive weights."""
    positive = weights[weights > 0]
    if not len(positive):
        return np.zeros(len(weights), bool)
    return np.asarray(weights >= np.median(positive) / 2)


def check_rule(estimator: Estimator) -> None:
    """Raise `ConfigError`, by the rule's name, unless the rule works on secret rows."""
    if isinstance(estimator, Krum):
        raise ConfigError(
            f"{estimator.title} gives all its weight to one client, whose update would be opened; use MultiKrum"
        )
    if isinstance(estimator, NNM):
        check_rule(estimator.inner)
    elif not isinstance(estimator, GramRule | Mean):
        raise ConfigError(
            f"{type(estimator).title} needs the coordinates of the updates, and with helpers only their Gram matrix is "
            "opened; use FilterL2, Resilience, NoRegret, GeometricMedian, MDA, SMEA, MultiKrum, NNM over one of them, "
            "or Mean"
        )


def _needs_coordinates() -> ConfigError:
    return ConfigError("a rule that needs coordinates; of secret rows only the Gram matrix is opened")
