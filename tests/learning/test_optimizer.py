"""The optimizers are PyTorch's, step for step."""

import msgspec
import pytest
import torch

from f2ed.core.errors import ConfigError
from f2ed.learning.optimizer import Training, begin, step

SETTINGS = [
    Training(lr=0.1),
    Training(lr=0.1, momentum=0.9),
    Training(lr=0.1, weight_decay=0.2),
    Training(lr=0.1, momentum=0.5, weight_decay=0.2),
    Training(lr=0.1, optimizer="adam"),
    Training(lr=0.1, optimizer="adam", weight_decay=0.2),
]


def peer(training, weights):
    if training.optimizer == "adam":
        return torch.optim.Adam([weights], lr=training.lr, weight_decay=training.weight_decay)
    return torch.optim.SGD([weights], training.lr, training.momentum, weight_decay=training.weight_decay)


@pytest.mark.parametrize("training", SETTINGS, ids=str)
@pytest.mark.parametrize("shape", [(5,), (3, 5)])
def test_steps_equal_those_of_torch_optim(training, shape):
    generator = torch.Generator().manual_seed(0)
    ours = torch.randn(shape, generator=generator)
    theirs = ours.clone().requires_grad_()
    optimizer, state = peer(training, theirs), begin(training, ours)
    for _ in range(4):
        gradient = torch.randn(shape, generator=generator)
        theirs.grad = gradient.clone()
        optimizer.step()
        step(training, ours, gradient, state)
    torch.testing.assert_close(ours, theirs.detach())


def test_momentum_with_adam_is_refused():
    with pytest.raises(ConfigError, match="momentum is a setting of SGD"):
        Training(optimizer="adam", momentum=0.9)


@pytest.mark.parametrize("wrong", ['{"lr": 0}', '{"batch_size": 0}', '{"momentum": 1}', '{"epochs": 3}'])
def test_settings_out_of_range_are_refused(wrong):
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(wrong, type=Training)
