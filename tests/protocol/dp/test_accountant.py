"""The accountant, against formulas and figures from the literature."""

import sys
from math import inf, log, nan, sqrt

import pytest

from f2ed.core.errors import ConfigError, MissingExtra
from f2ed.protocol.dp.accountant import dp_epsilon, noise_multiplier_for, rho


def test_noise_of_the_sensitivity_costs_one_half():
    """The Gaussian's zCDP: rho = 1/2s² (Bun and Steinke 2016); four with s/2 each make one with s."""
    assert rho(sensitivity=100.0, deviation=50.0, honest=4, coordinates=1000) == pytest.approx(0.5, rel=1e-9)


def test_each_member_without_noise_raises_the_cost():
    four, three = (rho(sensitivity=100.0, deviation=50.0, honest=honest, coordinates=1000) for honest in (4, 3))
    assert three == pytest.approx(four * 4 / 3, rel=1e-9)


def test_a_sum_of_very_small_noise_is_counted_as_the_worse_that_it_is():
    """Theorem 1 of Kairouz et al., by hand: 10·exp(-π²·0.36) = 0.28637 for two members and deviation 0.6."""
    plain = 1.0 / (2 * 0.36) / 2
    assert rho(sensitivity=1.0, deviation=0.6, honest=2, coordinates=1) == pytest.approx(
        (sqrt(2 * plain) + 0.28637) ** 2 / 2, rel=1e-4
    )


def test_epsilon_is_close_to_the_textbook_conversion_and_never_above_it():
    """rho-zCDP gives rho + 2√(rho·log(1/delta)) (Bun and Steinke 2016); the library's orders do better."""
    for cost in (0.01, 0.5, 3.0, 50.0):
        simple = cost + 2 * sqrt(cost * log(1e5))
        assert 0.75 * simple < dp_epsilon(cost, 1e-5) < simple


def test_no_opening_costs_nothing():
    assert dp_epsilon(0.0, 1e-5) == 0


def test_costs_add_up_so_that_epsilon_grows_more_slowly_than_rounds():
    assert dp_epsilon(0.5, 1e-5) < dp_epsilon(50 * 0.5, 1e-5) < 50 * dp_epsilon(0.5, 1e-5)


@pytest.mark.parametrize("delta", [0.0, 1.0, nan])
def test_a_delta_outside_of_0_and_1_is_refused(delta):
    with pytest.raises(ConfigError, match="between 0 and 1"):
        dp_epsilon(1.0, delta)


def test_the_multiplier_for_an_epsilon_is_the_smallest_that_keeps_it():
    needed = noise_multiplier_for(8.0, delta=1e-5, openings=100)
    assert dp_epsilon(100 / (2 * needed**2), 1e-5) <= 8.0 < dp_epsilon(100 / (2 * (0.99 * needed) ** 2), 1e-5)


@pytest.mark.parametrize("wanted", [0.0, -1.0, inf, nan])
def test_an_epsilon_that_means_nothing_is_refused(wanted):
    with pytest.raises(ConfigError, match="positive and finite"):
        noise_multiplier_for(wanted, delta=1e-5, openings=1)


def test_an_epsilon_out_of_reach_is_refused():
    with pytest.raises(ConfigError, match="out of reach"):
        noise_multiplier_for(0.001, delta=1e-5, openings=100)


def test_a_cost_needs_somebody_honest():
    with pytest.raises(ConfigError, match="0 honest members"):
        rho(sensitivity=1.0, deviation=1.0, honest=0, coordinates=1)


def test_without_the_library_the_error_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "dp_accounting", None)
    with pytest.raises(MissingExtra, match=r"f2ed\[dp\]"):
        dp_epsilon(0.123456789, 1e-5)
