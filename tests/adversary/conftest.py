"""The tests of this folder run on Flower's own classes, loaded as the tests of the deployment load them."""

from tests.flower.conftest import *  # noqa: F403  the fixtures, and what is left out without Flower
