"""A node trains models of one layout under one roster."""

import pytest

from f2ed import ConfigError
from f2ed.core.errors import Refusal
from f2ed.deployment.layout_pin import LayoutPin

APP, ONE, OTHER = bytes(32), b"1" * 32, b"2" * 32


@pytest.fixture
def pin(tmp_path):
    return LayoutPin(tmp_path / "state" / "abc.layout", b"roster")


def test_the_first_layout_is_pinned(pin):
    pin.check(APP, ONE)
    assert pin.pin(APP, ONE)
    assert not pin.pin(APP, ONE)
    for refused in (pin.check, pin.pin):
        with pytest.raises(Refusal, match="a model of layout 3232"):
            refused(APP, OTHER)
    pin.check(APP, ONE)


def test_to_check_pins_nothing(pin):
    pin.check(APP, ONE)
    pin.check(APP, OTHER)
    assert not pin.path.exists()


def test_every_app_and_every_roster_starts_afresh(pin):
    pin.pin(APP, ONE)
    assert pin.pin(b"3" * 32, OTHER)
    later = LayoutPin(pin.path, b"next serial")
    assert later.pin(APP, OTHER)
    with pytest.raises(Refusal):
        later.check(APP, ONE)


def test_a_damaged_file_is_refused_and_left_alone(pin):
    pin.pin(APP, ONE)
    pin.path.write_bytes(b"nonsense")
    with pytest.raises(ConfigError, match="the layout of the model in"):
        pin.pin(APP, ONE)
    assert pin.path.read_bytes() == b"nonsense"
