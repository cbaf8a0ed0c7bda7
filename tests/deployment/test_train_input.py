"""The digest of a training input: equal for equal inputs, and for no others."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from f2ed import ConfigError
from f2ed.deployment.train_input import NamedArray, TrainInput, plain_settings, run_digest

ARRAY = NamedArray("x", "float32", (2,), "numpy.ndarray", b"header and data")
INPUT = TrainInput("train", "arrays", (ARRAY,), "config", {"lr": 0.1, "server-round": 1})
RUN = run_digest({"epochs": 2})


def test_the_digest_is_the_one_that_was_published():
    """A change of this value is a change of the protocol: nodes of both versions would not understand each other."""
    assert RUN.hex() == "738d2d543e6efd4894a65770a0d6dfa49707fbce417a5d1c98ff47cd7488ec12"
    assert INPUT.digest(RUN).hex() == "0adb03f463d9758a082de7cb57ac0bbc774b67fe034ab6a144cf160d1be9c2ee"


@pytest.mark.parametrize(
    "other",
    [
        INPUT._replace(message_type="train.other"),
        INPUT._replace(arrays_name="model"),
        INPUT._replace(config_name="settings"),
        INPUT._replace(arrays_name="config", config_name="arrays"),
        INPUT._replace(arrays=()),
        INPUT._replace(arrays=(ARRAY, ARRAY._replace(name="y"))),
        INPUT._replace(arrays=(ARRAY._replace(name="y"),)),
        INPUT._replace(arrays=(ARRAY._replace(dtype="float64"),)),
        INPUT._replace(arrays=(ARRAY._replace(shape=(1, 2)),)),
        INPUT._replace(arrays=(ARRAY._replace(shape=()),)),
        INPUT._replace(arrays=(ARRAY._replace(stype="pickle"),)),
        INPUT._replace(arrays=(ARRAY._replace(data=b"header and dat4"),)),
        INPUT._replace(config={}),
        INPUT._replace(config={"lr": 0.1}),
        INPUT._replace(config={"lr": 1, "server-round": 0.1}),
        INPUT._replace(config={"lr": 0.1, "server-round": True}),
    ],
)
def test_every_part_of_an_input_counts(other):
    assert other.digest(RUN) != INPUT.digest(RUN)


def test_the_order_of_arrays_counts_and_that_of_settings_does_not():
    two = INPUT._replace(arrays=(ARRAY, ARRAY._replace(name="y")))
    assert two.digest(RUN) != two._replace(arrays=two.arrays[::-1]).digest(RUN)
    assert INPUT._replace(config={"server-round": 1, "lr": 0.1}).digest(RUN) == INPUT.digest(RUN)
    assert list(plain_settings({"b": 1, "a": 2})) == ["a", "b"]


def test_the_settings_of_the_run_count():
    assert INPUT.digest(run_digest({"epochs": 3})) != INPUT.digest(RUN)


scalars = st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False) | st.text() | st.binary()
lists = st.one_of(
    *(
        st.lists(each, max_size=3)
        for each in (st.booleans(), st.integers(-9, 9), st.text(max_size=3), st.binary(max_size=3))
    )
)
settings = st.dictionaries(st.text(max_size=3), scalars | lists, max_size=4)


def exact(config):
    """Return settings as text that tells types, signs and items apart."""
    return repr(sorted((name, repr(value)) for name, value in config.items()))


@given(settings, settings)
def test_settings_have_one_digest_each(one, other):
    assert (run_digest(one) == run_digest(other)) == (exact(one) == exact(other))


def test_signs_bytes_and_the_ends_of_numbers_count():
    values = [0, 1, -1, 255, -(2**63), 2**64 - 1, -127, b"", b"1", "1", "", "-1", True, 1.0, -0.0, 0.0, [b"1"], ["1"]]
    assert [exact(plain_settings({"k": value})) for value in values] == [exact({"k": value}) for value in values]
    assert len({run_digest({"k": value}) for value in values}) == len(values)


@given(settings)
def test_plain_settings_are_the_settings(config):
    assert exact(plain_settings(config)) == exact(config)


def test_numbers_of_numpy_travel_as_pythons():
    (value,) = plain_settings({"lr": np.float64(0.5)}).values()
    assert type(value) is float
    assert run_digest({"lr": np.float64(0.5)}) == run_digest({"lr": 0.5})


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (math.nan, "NaN"),
        ([1.0, math.nan], "NaN"),
        (2**64, "at most 64 bits"),
        (-(2**63) - 1, "at most 64 bits"),
        (None, "is a NoneType"),
        ({"a": 1}, "is a dict"),
        ([[1]], "is a list"),
        ([1, True], "several types"),
        (np.zeros(3), "is a ndarray"),
    ],
)
def test_what_has_no_unique_meaning_is_refused(value, words):
    with pytest.raises(ConfigError, match=f"the setting 'k' .*{words}"):
        plain_settings({"k": value})
