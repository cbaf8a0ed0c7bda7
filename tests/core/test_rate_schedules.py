"""Learning-rate schedules: the factor in each round."""

import pytest

from f2ed.core.errors import ConfigError
from f2ed.core.rate_schedules import ConstantRate, CosineRate, StepRate


@pytest.mark.parametrize(
    ("schedule", "factors"),
    [
        (ConstantRate(), [1, 1, 1]),
        (ConstantRate(warmup=3), [1 / 4, 2 / 4, 3 / 4, 1, 1]),
        (StepRate(every=2, factor=0.5), [1, 1, 0.5, 0.5, 0.25]),
        (StepRate(every=1, factor=0.5, warmup=1), [0.5, 1, 0.5, 0.25]),
        (CosineRate(rounds=4, final=0.2), [1, 0.8828, 0.6, 0.3172, 0.2, 0.2]),
        (CosineRate(rounds=2, final=0.5, warmup=1), [0.5, 1, 0.75, 0.5, 0.5]),
    ],
)
def test_the_factor_of_each_round(schedule, factors):
    assert [schedule(round_) for round_ in range(len(factors))] == pytest.approx(factors, abs=1e-4)


@pytest.mark.parametrize(
    "make",
    [
        lambda: StepRate(every=0),
        lambda: StepRate(every=1, factor=1),
        lambda: CosineRate(rounds=0),
        lambda: CosineRate(rounds=3, final=2),
        lambda: CosineRate(rounds=3, final=0),
        lambda: ConstantRate(warmup=-1),
    ],
)
def test_settings_out_of_range_are_refused(make):
    with pytest.raises(ConfigError):
        make()
