"""Each rule as its paper writes it: dense, slow, over all subsets. The oracle for small inputs."""

from itertools import combinations

import numpy as np


def median(X):
    return np.median(X, axis=0)


def trimmed_mean(X, f):
    return np.sort(X, axis=0)[f : len(X) - f].mean(axis=0)


def nearest_to_median(X, keep):
    out = []
    for column in X.T:
        near = sorted(column, key=lambda x: (abs(x - np.median(column)), x))
        out.append(np.mean(near[:keep]))
    return np.array(out)


def krum_order(X, f):
    scores = []
    for i, x in enumerate(X):
        others = sorted(np.sum((x - y) ** 2) for j, y in enumerate(X) if j != i)
        scores.append(sum(others[: max(len(X) - f - 2, 1)]))
    return np.argsort(scores, kind="stable")


def bulyan(X, f, pick):
    left, chosen = list(range(len(X))), []
    for _ in range(len(X) - 2 * f):
        best = pick(X[left])
        chosen.append(left.pop(best))
    return nearest_to_median(X[chosen], len(X) - 4 * f)


def centered_clipping(X, start, radius):
    v = np.array(start, float)
    move = np.zeros_like(v)
    for x in X:
        move += (x - v) * min(1, radius / np.linalg.norm(x - v))
    return v + move / len(X)


def _covariance(X, c):
    mu = np.average(X, axis=0, weights=c)
    cov = np.average([np.outer(x - mu, x - mu) for x in X], axis=0, weights=c)
    values, vectors = np.linalg.eigh(cov)
    return mu, values[-1], np.array([np.dot(x - mu, vectors[:, -1]) ** 2 for x in X])


def filter_l2(X, f, bound, *, squared=False):
    """Algorithm 2 of the paper with at most 2f removals; the removed row leaves the matrix."""
    c = np.ones(len(X))
    X = np.array(X)
    for _ in range(2 * f):
        mu, top, tau = _covariance(X, c)
        if (top**2 if squared else top) <= bound:
            return mu
        c = c * (1 - tau / tau.max())
        X, c = np.delete(X, tau.argmax(), axis=0), np.delete(c, tau.argmax())
    return np.average(X, axis=0, weights=c)


def filter_without_scale(X, f):
    c, best, least = np.ones(len(X)), None, np.inf
    while c.sum() > len(X) - 2 * f:
        mu, top, tau = _covariance(X, c)
        if top < least:
            best, least = mu, top
        if tau[c > 0].max() < 1e-20:
            break
        c = c * (1 - tau / tau[c > 0].max())
        c = np.where(c < 1e-12, 0, c)
    return X.mean(axis=0) if best is None else best


def no_regret(X, f, contamination):
    X = X[np.sort(krum_order(X, f)[: len(X) - f])]
    step = 0.5 / max(np.sum((x - y) ** 2) for x in X for y in X)
    c, best, least = np.full(len(X), 1 / len(X)), None, np.inf
    for _ in range(2 * f + 1):
        mu, top, tau = _covariance(X, c)
        if top < least:
            best, least = mu, top
        c = capped(c * (1 - step * tau), 1 / ((1 - contamination) * len(X)))
    return best


def capped(c, cap):
    """The projection in relative entropy on the capped simplex is min(a c, cap), with a found by bisection."""
    low, high = 0.0, cap / c.min()
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if np.minimum(middle * c, cap).sum() < 1 else (low, middle)
    return np.minimum(high * c, cap)


def diameter(X):
    return max((np.linalg.norm(x - y) for x, y in combinations(X, 2)), default=0.0)


def smallest_diameter(X, f):
    return min(diameter(X[list(keep)]) for keep in combinations(range(len(X)), len(X) - f))


def smea(X, f):
    sets = [list(keep) for keep in combinations(range(len(X)), len(X) - f)]
    return X[min(sets, key=lambda keep: _covariance(X[keep], np.ones(len(keep)))[1])].mean(axis=0)


def nearest_neighbor_mixing(X, f):
    return np.array([X[np.argsort(np.sum((X - x) ** 2, axis=1), kind="stable")[: len(X) - f]].mean(axis=0) for x in X])


def clip(X, radius):
    return np.array([x * min(1, radius / np.linalg.norm(x)) for x in X])


def adaptive_clip(X, f):
    n, lengths = len(X), np.linalg.norm(X, axis=1)
    count = int(2 * f / n * (n - f))
    return clip(X, np.sort(lengths)[n - count - 1])


def fenced(X, weights, f, most, cut):
    """Keep the n - f heaviest rows and those as heavy as the last; bound each coordinate of theirs at either end."""
    last = sorted(weights, reverse=True)[len(X) - f - 1]
    kept = (
        [i for i in range(len(X)) if weights[i] >= last]
        if last > 0
        else sorted(np.argsort(-weights, kind="stable")[: len(X) - f])
    )
    drop = min(f, int(most * len(kept) + 1e-9))
    if cut == "nearest":
        return nearest_to_median(X[kept], len(kept) - 2 * drop)
    Y, w = X[kept], weights[kept] / weights[kept].sum()
    answer = np.empty(X.shape[1])
    for column in range(X.shape[1]):
        ordered = sorted(Y[:, column])
        low, high = ordered[drop], ordered[len(kept) - 1 - drop]
        if cut == "winsorize":
            answer[column] = sum(w[i] * min(max(Y[i, column], low), high) for i in range(len(kept)))
        else:
            inside = [i for i in range(len(kept)) if low <= Y[i, column] <= high]
            answer[column] = sum(w[i] * Y[i, column] for i in inside) / sum(w[i] for i in inside)
    return answer
