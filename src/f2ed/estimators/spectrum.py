"""The largest variance among weighted rows, from their Gram matrix."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

__all__ = ["Spread", "widest"]

Vector = npt.NDArray[np.float64]
_POWER_STEPS = 8


class Spread(NamedTuple):
    """The top eigenvalue of the weighted covariance, and each row's coordinate along its direction."""

    eigenvalue: float
    along: Vector

    @property
    def scores(self) -> Vector:
        """How far each row sticks out: its squared coordinate."""
        return self.along * self.along


def widest(gram: Vector, weights: Vector) -> Spread:
    """Find the direction along which the weighted rows vary most; `weights` need not sum to one.

    With p the normalised weights and H the Gram matrix about the weighted mean, the covariance has the
    eigenvalues of K = √p H √p, and a row's coordinate along the top one's direction is H √p u / √λ.
    """
    p = weights / weights.sum()
    g = gram @ p
    H = gram - g[:, None] - g + p @ g
    root = np.sqrt(p)
    K = root[:, None] * H * root
    top, u = _top(K)
    # Rounding alone leaves an eigenvalue of this order where all rows agree.
    if top <= 1e-14 * float(gram.diagonal()[p > 0].max()):
        return Spread(0.0, np.zeros(len(p)))
    return Spread(top, H @ (root * u) / np.sqrt(top))


def _top(K: Vector) -> tuple[float, Vector]:
    """Return the top eigenpair of a positive semidefinite matrix, to machine precision.

    A few power steps settle the common case of one far row. They can settle only on the top pair if its
    eigenvalue is more than half the trace; otherwise LAPACK decides.
    """
    trace = float(np.trace(K))
    u = K[:, int(np.argmax(K.diagonal()))]
    for _ in range(_POWER_STEPS):
        length = float(np.sqrt(u @ u))
        if not length > 0:
            break
        v = u / length
        u = K @ v
        value = float(v @ u)
        if 2 * value <= trace:
            break
        if np.abs(u - value * v).max() <= 1e-15 * value:
            return value, v
    values, vectors = np.linalg.eigh(K)
    return float(values[-1]), vectors[:, -1]
