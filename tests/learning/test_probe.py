"""What a model is found to allow."""

import pytest
import torch
from torch import nn

from f2ed.learning import ClientData, Local, flatten
from f2ed.learning.probe import draws_lots


@pytest.mark.parametrize(("chance", "draws"), [(0.0, False), (1e-9, True), (0.5, True)])
def test_a_model_with_the_least_dropout_draws_lots(chance, draws):
    layers = [nn.Flatten(), nn.Linear(4, 3)] + ([nn.Dropout(chance)] if chance else [])
    model = nn.Sequential(*layers)
    data = ClientData(torch.ones(2, 1, 2, 2), torch.arange(2), torch.zeros(2, dtype=torch.long))
    before = torch.get_rng_state()
    assert draws_lots(Local(model), flatten(model), data) is draws
    assert torch.equal(before, torch.get_rng_state()), "the caller's generator stays where it was"
