"""Settings made in Python are held to what files are held to."""

from typing import Annotated, Literal

import msgspec
import numpy as np
import pytest

from f2ed.core.errors import ConfigError, SettingError
from f2ed.core.settings import Settings


class Oven(Settings, frozen=True, forbid_unknown_fields=True):
    degrees: Annotated[float, msgspec.Meta(gt=0)] = 180.0
    trays: Annotated[int, msgspec.Meta(ge=1)] | None = None
    mode: Literal["air", "grill"] = "air"


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"degrees": -1}, "degrees: expected `float` > 0.0 (found -1)"),
        ({"degrees": "hot"}, "degrees: expected `float`, got `str` (found 'hot')"),
        ({"trays": 0}, "trays: expected `int` >= 1 (found 0)"),
        ({"trays": True}, "trays: expected `int | null`, got `bool` (found True)"),
        ({"mode": "microwave"}, "mode: expected one of 'air', 'grill' (found 'microwave')"),
    ],
)
def test_a_constructor_refuses_what_a_file_may_not_say(given, sentence):
    with pytest.raises(SettingError) as refusal:
        Oven(**given)
    assert str(refusal.value) == sentence
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(given, Oven)


def test_the_error_is_both_a_config_error_and_a_value_error():
    assert issubclass(SettingError, ConfigError)
    assert issubclass(SettingError, ValueError)


def test_numpy_scalars_become_plain_numbers():
    oven = Oven(degrees=np.float32(200), trays=np.int64(3))
    assert oven == Oven(200.0, 3)
    assert type(oven.degrees) is float
    assert type(oven.trays) is int


def test_an_integer_becomes_a_float_as_in_a_file():
    assert type(Oven(degrees=200).degrees) is float
