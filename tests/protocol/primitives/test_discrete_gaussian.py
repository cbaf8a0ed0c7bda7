"""The discrete Gaussian: its distribution, its sums, what is refused."""

from math import exp, inf, nan, sqrt

import msgspec
import numpy as np
import pytest

from f2ed.core.errors import ConfigError
from f2ed.protocol.dp import Noise
from f2ed.protocol.primitives.crypto import Keystream
from f2ed.protocol.primitives.discrete_gaussian import DiscreteGaussian, discrete_gaussian, rounded_norm

COUNT = 200_000
DEVIATIONS = [0.5, 0.8, 3.0, 31.99, 32.0, 33.7, 1000.0]


def drawn(deviation, seed=1, count=COUNT):
    numbers = np.zeros(count, np.int64)
    DiscreteGaussian(deviation).add(numbers, Keystream(bytes([seed]) * 32))
    return numbers


def exact(deviation):
    """Return the integers within 12 deviations and their true chances."""
    reach = int(12 * deviation) + 1
    k = np.arange(-reach, reach + 1)
    weights = np.exp(-(k.astype(float) ** 2) / (2 * deviation**2))
    return k, weights / weights.sum()


@pytest.mark.parametrize("deviation", DEVIATIONS)
def test_moments_are_those_of_the_distribution(deviation):
    k, chances = exact(deviation)
    variance, fourth = (float((k.astype(float) ** power * chances).sum()) for power in (2, 4))
    found = drawn(deviation).astype(float)
    # Four standard errors each.
    assert abs(found.mean()) < 4 * sqrt(variance / COUNT)
    assert abs((found**2).mean() - variance) < 4 * sqrt((fourth - variance**2) / COUNT)
    assert variance == pytest.approx(deviation**2, rel=0.15)


@pytest.mark.parametrize("deviation", DEVIATIONS)
def test_every_value_comes_as_often_as_it_should(deviation):
    k, chances = exact(deviation)
    # Values too rare for a chi-square share a cell with their neighbors.
    cells = np.minimum((np.cumsum(chances) * 150).astype(int), 149) if deviation > 2 else np.clip(k, -2, 2)
    names, place = np.unique(cells, return_inverse=True)
    wanted = np.bincount(place, chances) * COUNT
    found = np.bincount(place[np.searchsorted(k, drawn(deviation))], minlength=len(names))
    square = float(((found - wanted) ** 2 / wanted).sum())
    free = len(names) - 1
    assert square < free + 5 * sqrt(2 * free)


def test_values_within_one_strip_are_told_apart():
    """The smallest and the largest of a strip differ in weight by a tenth or so near the deviation."""
    deviation = 64.0  # Strips of 4 from 64 on.
    numbers = np.abs(drawn(deviation, count=4_000_000))
    first, last = (np.count_nonzero(numbers == value) for value in (128, 131))
    assert last / first == pytest.approx(exp((128**2 - 131**2) / (2 * deviation**2)), abs=4 / sqrt(first))


@pytest.mark.parametrize("deviation", [0.5, 7.0, 1e5, 2.0**50])
def test_no_number_is_beyond_the_reach(deviation):
    sampler = DiscreteGaussian(deviation)
    numbers = drawn(deviation, count=10_000)
    assert np.abs(numbers).max() <= sampler.largest
    assert 9.99 * deviation - 1 <= sampler.largest <= 10.1 * deviation + 1


def test_the_table_gives_every_strip_its_chance_to_the_last_step():
    sampler = DiscreteGaussian(20.0)
    thresholds, aliases = sampler._thresholds, sampler._aliases
    full = 1 << 64
    weights = [0] * 512
    for cell, (threshold, alias) in enumerate(zip(thresholds.tolist(), aliases.tolist(), strict=True)):
        weights[cell] += threshold
        weights[alias] += full - threshold
    true = [exp(-(strip**2) / 800) for strip in range(200)]
    for found, wanted in zip(weights, true, strict=False):
        assert found == pytest.approx(wanted / sum(true) * 512 * full, rel=1e-12, abs=600)
    assert not any(weights[200:])


def test_noise_of_several_adds_up_to_the_variance_of_their_sum():
    total = sum(drawn(5.0, seed=seed, count=50_000) for seed in range(1, 9))
    assert total.var() == pytest.approx(8 * 25, rel=4 * sqrt(2 / 50_000))


def test_the_same_key_gives_the_same_noise_and_another_key_other_noise():
    assert np.array_equal(drawn(9.0, 1, 1000), drawn(9.0, 1, 1000))
    assert not np.array_equal(drawn(9.0, 1, 1000), drawn(9.0, 2, 1000))


def test_noise_is_added_to_what_is_there():
    words = np.full(1000, 7, np.int32)
    discrete_gaussian(2.0).add(words, Keystream(bytes(32)))
    plain = np.zeros(1000, np.int32)
    discrete_gaussian(2.0).add(plain, Keystream(bytes(32)))
    assert np.array_equal(words, plain + 7)


@pytest.mark.parametrize("deviation", [0.0, 0.49, -1.0, inf, nan, 2.0**51])
def test_a_deviation_that_cannot_be_drawn_is_refused(deviation):
    with pytest.raises(ConfigError, match="use more fixed-point bits"):
        DiscreteGaussian(deviation)


@pytest.mark.parametrize("multiplier", [0.0, -1.0, nan, inf])
def test_a_multiplier_must_be_positive(multiplier):
    with pytest.raises(ConfigError, match="noise multiplier"):
        Noise(noise_multiplier=multiplier)
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"multiplier": multiplier}, Noise)


@pytest.mark.parametrize("delta", [0.0, 1.0, -1e-5, nan])
def test_delta_must_lie_between_0_and_1(delta):
    with pytest.raises(ConfigError, match="delta"):
        Noise(noise_multiplier=1.0, delta=delta)
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"multiplier": 1.0, "delta": delta}, Noise)


def test_rounding_lengthens_a_vector_by_no_more_than_the_bound():
    """By hand: 10 + √4 = 12 always; where norms are large against √d, the likely bound is the smaller one."""
    assert rounded_norm(10.0, 4) == 12.0
    assert 1000 < rounded_norm(1000.0, 10_000) < 1009
