"""The same bits, whatever the number of threads."""

import msgspec
import numpy as np
import pytest
import threadpoolctl

import f2ed.core.arrays
from f2ed import estimators as e
from f2ed.estimators._linalg.gram import GramStream
from tests.estimators.examples import ALL, EXTRA, name, trusted

BLAS = threadpoolctl.ThreadpoolController().select(user_api="blas")


def rows(n, d):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(n, d)) * np.geomspace(0.1, 10, d) + rng.normal(size=d)
    X[::7] += 0.5
    return X.astype(np.float32)


@pytest.fixture
def with_threads(monkeypatch):
    """Call a function with so many cores, and with a BLAS that would take as many threads."""
    monkeypatch.setattr(f2ed.core.arrays, "_WORTH_THREADS", 1)

    def call(threads, work):
        monkeypatch.setattr(f2ed.core.arrays, "cores", lambda: threads)
        f2ed.core.arrays._pool.cache_clear()
        with BLAS.limit(limits=threads):
            return work()

    yield call
    f2ed.core.arrays._pool.cache_clear()


def told(estimate):
    """All that an estimate says, to the bit."""
    weights = None if estimate.weights is None else estimate.weights.tobytes()
    return estimate.mean.tobytes(), weights, estimate.eigenvalue, estimate.iterations, estimate.stopped


@pytest.mark.parametrize(
    ("rule", "n", "d"),
    [
        *((rule, 19, 6007) for rule in ALL + EXTRA),
        *((rule, 200, 30_011) for rule in (e.Mean(), e.FilterL2(0.1), e.NoRegret(0.1), e.GeometricMedian())),
        *((rule, 200, 30_011) for rule in (e.NNM(0.1, inner=e.Mean()), e.DnC(0.1), e.CenteredClipping(3.0))),
    ],
    ids=lambda value: name(value) if isinstance(value, msgspec.Struct) else str(value),
)
def test_the_number_of_threads_changes_no_bit(rule, n, d, with_threads):
    X = rows(n, d)
    tensors, root = [10, 20, d - 30], trusted(X)
    one, two, four = (told(with_threads(k, lambda: rule(X, tensors=tensors, root=root))) for k in (1, 2, 4))
    assert one == two == four


def test_nor_does_it_in_a_gram_matrix_of_blocks_that_arrive_one_by_one(with_threads):
    X = rows(200, 9001)

    def measure():
        stream = GramStream(200)
        stream.add(X[:, :5000])
        stream.add(X[:, 5000:])
        return stream.gram.tobytes(), told_verdict(e.FilterL2(0.1).weigh(stream.gram))

    one, two, four = (with_threads(k, measure) for k in (1, 2, 4))
    assert one == two == four


def told_verdict(verdict):
    return verdict.weights.tobytes(), verdict.eigenvalue, verdict.iterations
