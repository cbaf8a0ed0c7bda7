"""Clients send the average of their updates over time, and the state goes in and out."""

import pytest
import torch

from f2ed.core.errors import ConfigError
from f2ed.learning.momentum import ClientMomentum, MomentumState


def test_the_first_time_the_update_itself_is_sent_then_the_running_average():
    rule, memory = ClientMomentum(beta=0.75), MomentumState()
    sent, memory = rule(torch.tensor([[4.0, 8.0]]), [1], memory)
    assert sent.tolist() == [[4, 8]]
    sent, memory = rule(torch.tensor([[1.0, 1.0], [0.0, 0.0]]), [2, 1], memory)
    assert sent.tolist() == [[1, 1], [3, 6]]
    assert {client: row.tolist() for client, row in memory.averages.items()} == {1: [3, 6], 2: [1, 1]}


def test_the_memory_given_stays_as_it_is():
    memory = MomentumState()
    ClientMomentum()(torch.ones(1, 1), [0], memory)
    assert memory.clients == ()


def test_without_momentum_updates_are_sent_as_they_are():
    _, memory = ClientMomentum(beta=0)(torch.ones(1, 2), [0], MomentumState())
    sent, _ = ClientMomentum(beta=0)(torch.full((1, 2), 5.0), [0], memory)
    assert sent.tolist() == [[5, 5]]


def test_as_many_updates_as_clients_are_wanted():
    with pytest.raises(ConfigError, match="found 1 updates for 2 clients"):
        ClientMomentum()(torch.ones(1, 2), [0, 1], MomentumState())
