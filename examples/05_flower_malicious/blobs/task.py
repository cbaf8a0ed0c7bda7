"""Data, model and training in NumPy: nothing here knows of Flower or of f2ed."""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
CLASSES, FEATURES = 10, 64


def load(seed: int, samples: int = 200) -> tuple[Floats, NDArray[np.int64]]:
    """Return points around ten centers, and which center each belongs to; the seed says whose they are."""
    centers = np.random.default_rng(0).normal(0, 1, (CLASSES, FEATURES))
    rng = np.random.default_rng(seed + 1)
    labels = rng.integers(0, CLASSES, samples)
    return (centers[labels] + rng.normal(0, 2, (samples, FEATURES))).astype(np.float32), labels


def train(weights: Floats, points: Floats, labels: NDArray[np.int64], *, steps: int = 20, lr: float = 0.05) -> Floats:
    """Return the weights after some steps of logistic regression."""
    wanted = np.eye(CLASSES, dtype=np.float32)[labels]
    for _ in range(steps):
        scores = points @ weights
        likely = np.exp(scores - scores.max(axis=1, keepdims=True))
        likely /= likely.sum(axis=1, keepdims=True)
        weights = weights - lr * points.T @ (likely - wanted) / len(points)
    return weights


def accuracy(weights: Floats) -> float:
    """Return the share of new points that are named right."""
    points, labels = load(-1, 2000)
    return float(((points @ weights).argmax(axis=1) == labels).mean())


def attack(before: Floats, after: Floats, *, boost: float = 20.0) -> Floats:
    """Turn an update around and make it larger: what a malicious client might send."""
    return before - boost * (after - before)
