"""The tests of this folder run on Flower's own classes, loaded as the tests of the deployment load them."""

import pytest

from tests.flower.conftest import *  # noqa: F403  the fixtures, and what is left out without Flower


@pytest.fixture
def agents(tmp_path):
    """Return a function that makes a lying server whose nodes have agents."""
    from tests.adversary.agents import Agents

    made = []

    def make(*args, **settings):
        made.append(Agents(tmp_path, *args, **settings))
        return made[-1]

    yield make
    for each in made:
        each.close()
