"""Threads over blocks of columns, and BLAS held to one of them."""

import multiprocessing
import os
import warnings
from itertools import pairwise

import numpy as np
import pytest
import threadpoolctl

from f2ed.core import arrays


def blas_threads():
    return [pool["num_threads"] for pool in threadpoolctl.threadpool_info() if "numpy.libs" in pool["filepath"]]


def test_blas_is_held_to_one_thread_and_then_let_go():
    before = blas_threads()
    with arrays.one_blas_thread():
        assert set(blas_threads()) == {1}
    assert blas_threads() == before


def test_every_column_is_walked_once_and_in_order(monkeypatch):
    monkeypatch.setattr(arrays, "_WORTH_THREADS", 1)
    for columns in (1, 7, 80_000, 100_001):
        matrix = np.zeros((10, columns), np.float32)
        lanes = arrays.in_lanes(lambda blocks: [(b.start, b.stop) for b in blocks], matrix, 1000)
        borders = [pair for lane in lanes for pair in lane]
        assert borders[0][0] == 0
        assert borders[-1][1] == columns
        assert all(left[1] == right[0] for left, right in pairwise(borders))


def test_sums_do_not_depend_on_the_number_of_cores(monkeypatch):
    monkeypatch.setattr(arrays, "_WORTH_THREADS", 1)
    X = np.random.default_rng(0).normal(size=(30, 60_000)).astype(np.float32)

    def total(blocks):
        return sum(X[:, b].sum(dtype=np.float32) for b in blocks)

    answers = []
    for cores in (1, 2, 5):
        monkeypatch.setattr(arrays, "cores", lambda cores=cores: cores)
        arrays._pool.cache_clear()
        answers.append(sum(arrays.in_lanes(total, X, 4096)))
    arrays._pool.cache_clear()
    assert answers[0] == answers[1] == answers[2]


def test_without_threadpoolctl_everything_still_works(monkeypatch):
    monkeypatch.setattr(arrays, "_WORTH_THREADS", 1)
    monkeypatch.setattr(arrays, "_blas", lambda: None)
    with arrays.one_blas_thread():
        assert len(arrays.in_lanes(list, np.zeros((30, 60_000)), 4096, blas=True)) > 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_forked_child_has_threads_of_its_own(monkeypatch):
    monkeypatch.setattr(arrays, "_WORTH_THREADS", 1)
    X = np.ones((30, 60_000), np.float32)
    assert len(arrays.in_lanes(list, X, 4096)) > 1  # the parent's threads are started
    context = multiprocessing.get_context("fork")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # forking with threads: the very case under test
        child = context.Process(target=arrays.in_lanes, args=(list, X, 4096))
        child.start()
    child.join(timeout=60)
    assert child.exitcode == 0
