"""Updates on their way from an app to the agent."""

import socket

import numpy as np
import pytest

from f2ed.core.errors import GoneError
from f2ed.deployment.agent.frames import Failed, Update, receive, receive_floats, send, send_floats


@pytest.fixture
def pair():
    app, agent = socket.socketpair()
    with app, agent:
        agent.settimeout(5.0)
        yield app, agent


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, np.dtype(">f4")])
def test_an_update_arrives_in_its_own_precision_or_as_single(pair, dtype):
    app, agent = pair
    vector = np.linspace(-1, 1, 9).astype(dtype)[::2]
    send_floats(app, vector)
    announced = receive(agent, Update | Failed, most=100)
    assert announced == Update("<f8" if dtype is np.float64 else "<f4", 5)
    arrived = receive_floats(agent, announced, wanted=5)
    np.testing.assert_array_equal(arrived, vector)
    assert arrived.dtype == announced.dtype


def test_an_update_of_another_length_is_read_to_its_end_and_not_used(pair):
    app, agent = pair
    send_floats(app, np.zeros(7, np.float32))
    send(app, Failed())
    assert receive_floats(agent, receive(agent, Update, most=100), wanted=8) is None
    assert receive(agent, Update | Failed, most=100) == Failed()


def test_a_frame_is_read_up_to_the_largest_size_and_no_further(pair):
    app, agent = pair
    send(app, Failed())
    assert receive(agent, Failed, most=8) == Failed()
    send(app, Failed())
    with pytest.raises(GoneError, match="a frame of 8 bytes; at most 7 are read"):
        receive(agent, Failed, most=7)
