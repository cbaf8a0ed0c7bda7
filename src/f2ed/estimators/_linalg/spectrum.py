"""The largest variance among weighted rows, from their Gram matrix."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

__all__ = ["Spread", "widest"]

Vector = npt.NDArray[np.float64]
_POWER_STEPS = 8
_MANY = 64  # rows from which on all eigenvectors cost more than one


class Spread(NamedTuple):
    """The top eigenvalue of the weighted covariance, and each row's coordinate along its direction."""

    eigenvalue: float
    along: Vector

    @property
    def scores(self) -> Vector:
        """The outlier score of each row: its squared coordinate."""
        return self.along * self.along


def widest(gram: Vector, weights: Vector) -> Spread:
    """Find the direction along which the weighted rows vary most; `weights` need not sum to one.

    With p the normalized weights and H the Gram matrix about the weighted mean, the covariance has the
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
    """Return the top eigenpair of a positive semidefinite matrix, to machine precision."""
    return _by_powers(K) or _by_inverse(K) or _by_lapack(K)


def _by_powers(K: Vector) -> tuple[float, Vector] | None:
    """Solve the common case of one far row in a few power steps.

    They converge to the top pair for certain only if its eigenvalue is more than half the trace.
    """
    trace = float(np.trace(K))
    u = K[:, int(np.argmax(K.diagonal()))]
    for _ in range(_POWER_STEPS):
        length = float(np.sqrt(u @ u))
        if not length > 0:
            return None
        v = u / length
        u = K @ v
        value = float(v @ u)
        if 2 * value <= trace:
            return None
        if np.abs(u - value * v).max() <= 1e-15 * value:
            return value, v
    return None


def _by_inverse(K: Vector) -> tuple[float, Vector] | None:
    """Find the top eigenvector by inverse iteration: cheaper than all eigenvectors if there are many."""
    if len(K) < _MANY:
        return None
    value = float(np.linalg.eigvalsh(K)[-1])
    v = K[:, int(np.argmax(K.diagonal()))]
    shifted = K - value * (1 + 1e-13) * np.eye(len(K))
    try:
        for _ in range(2):
            nearer = np.linalg.solve(shifted, v)
            v = np.asarray(nearer / np.sqrt(nearer @ nearer), np.float64)
    except np.linalg.LinAlgError:
        return None
    return (value, v) if np.abs(K @ v - value * v).max() <= 1e-13 * value else None


def _by_lapack(K: Vector) -> tuple[float, Vector]:
    values, vectors = np.linalg.eigh(K)
    return float(values[-1]), np.asarray(vectors[:, -1])
