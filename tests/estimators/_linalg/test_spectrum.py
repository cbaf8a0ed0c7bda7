"""The top eigenpair, by whichever way is cheapest."""

import numpy as np
import pytest

from f2ed.estimators._linalg import spectrum


def matrices():
    rng = np.random.default_rng(0)
    Q, _ = np.linalg.qr(rng.normal(size=(100, 100)))
    noise = rng.normal(size=(100, 4000))
    blocks = np.zeros((100, 100))
    blocks[0, 0], blocks[1:3, 1:3] = 1.0, [[0.9, 0.8], [0.8, 0.9]]
    return {
        "noise": noise @ noise.T,
        "one far row": noise @ noise.T + 1e8 * np.outer(Q[0], Q[0]),
        "twins at the top": Q @ np.diag([1.0] * 2 + [0.5] * 98) @ Q.T,
        "nearly twins": Q @ np.diag([1.0, 1 - 1e-9] + [0.5] * 98) @ Q.T,
        "the largest diagonal entry misleads": blocks,
        "the identity": np.eye(100),
        "tiny": 1e-60 * (noise @ noise.T),
    }


@pytest.mark.parametrize("name", matrices())
@pytest.mark.parametrize("size", [100, 12])
def test_it_is_an_eigenpair_and_the_largest(name, size):
    K = matrices()[name][:size, :size]
    value, vector = spectrum._top(K)
    assert value == pytest.approx(np.linalg.eigvalsh(K)[-1], rel=1e-12)
    assert np.linalg.norm(vector) == pytest.approx(1)
    assert np.abs(K @ vector - value * vector).max() <= 1e-12 * value


@pytest.mark.parametrize("way", [spectrum._by_powers, spectrum._by_inverse])
def test_a_short_way_gives_nothing_rather_than_a_wrong_pair(way):
    for K in matrices().values():
        pair = way(K)
        if pair is not None:
            assert pair[0] == pytest.approx(np.linalg.eigvalsh(K)[-1], rel=1e-12)


def test_each_way_is_taken_where_it_should_be():
    found = matrices()
    assert spectrum._by_powers(found["one far row"]) is not None
    assert spectrum._by_powers(found["noise"]) is None
    assert spectrum._by_inverse(found["noise"]) is not None
    assert spectrum._by_inverse(found["noise"][:12, :12]) is None


def test_rows_that_agree_have_no_spread():
    assert spectrum.widest(np.full((5, 5), 3.0), np.ones(5)).eigenvalue == 0
