"""What a model is found to allow."""

import pytest
import torch
from torch import nn

from f2ed.learning import ClientData, LocalTrainer, flatten
from f2ed.learning.fast.gradients import by_vmap
from f2ed.learning.fast.probe import disagreement, is_stochastic


@pytest.mark.parametrize(("chance", "draws"), [(0.0, False), (1e-9, True), (0.5, True)])
def test_a_model_with_the_least_dropout_draws_lots(chance, draws):
    layers = [nn.Flatten(), nn.Linear(4, 3)] + ([nn.Dropout(chance)] if chance else [])
    model = nn.Sequential(*layers)
    data = ClientData(torch.ones(2, 1, 2, 2), torch.arange(2), torch.zeros(2, dtype=torch.long))
    before = torch.get_rng_state()
    assert is_stochastic(LocalTrainer(model), flatten(model), data) is draws
    assert torch.equal(before, torch.get_rng_state()), "the caller's generator stays where it was"


@pytest.mark.parametrize("scale", [1.0, 800.0])
@pytest.mark.parametrize(("error", "refused"), [(1e-5, False), (1e-2, True)])
def test_gradients_may_differ_by_rounding_errors_which_grow_with_them(scale, error, refused):
    model = nn.Sequential(nn.Flatten(), nn.Linear(4, 3))
    images = scale * torch.rand(5, 1, 2, 2, generator=torch.Generator().manual_seed(0))
    data = ClientData(images, torch.arange(5), torch.tensor([0, 1, 2, 0, 1]))
    local = LocalTrainer(model)

    def nearly(weights, buffers, images, labels, shares):
        found = []
        for row, count in enumerate((shares > 0).sum(1).tolist()):
            local.load(torch.cat((weights[row], buffers)))
            _, gradient = local.loss_and_gradient(images[row, :count], labels[row, :count])
            found.append(gradient + error * max(1.0, float(gradient.abs().max())))
        return torch.stack(found)

    complaint = disagreement(nearly, local, flatten(model), data)
    assert (complaint is not None) is refused
    assert not refused or "gradients differ by up to" in complaint


@pytest.mark.parametrize(
    ("where", "refused"), [("one unit of many", False), ("a tensor", True), ("a small tensor", True)]
)
def test_gradients_may_differ_in_few_coordinates_of_a_large_tensor(where, refused):
    model = nn.Sequential(nn.Flatten(), nn.Linear(4, 5000), nn.Tanh(), nn.Linear(5000, 3))
    draws = torch.Generator().manual_seed(0)
    data = ClientData(torch.rand(5, 1, 2, 2, generator=draws), torch.arange(5), torch.tensor([0, 1, 2, 0, 1]))
    local = LocalTrainer(model)

    def nearly(weights, buffers, images, labels, shares):
        found = []
        for row, count in enumerate((shares > 0).sum(1).tolist()):
            local.load(torch.cat((weights[row], buffers)))
            gradient = local.loss_and_gradient(images[row, :count], labels[row, :count])[1].clone()
            if where == "one unit of many":
                gradient[:2] += 4e-4 * gradient[:20000].norm()
            elif where == "a tensor":
                gradient[:20000] *= 1.02
            else:
                gradient[-3:] *= 1.02
            found.append(gradient)
        return torch.stack(found)

    assert (disagreement(nearly, local, flatten(model), data) is not None) is refused


def test_vmap_is_not_used_on_a_cpu_for_what_it_would_loop_over():
    class Reader(nn.Module):
        def __init__(self):
            super().__init__()
            self.reader, self.head = nn.LSTM(1, 3, batch_first=True), nn.Linear(3, 2)

        def forward(self, x):
            return self.head(self.reader(x)[0][:, -1])

    data = ClientData(torch.rand(5, 4, 1), torch.arange(5), torch.tensor([0, 1, 1, 0, 1]))
    model = Reader()
    complaint = disagreement(by_vmap(model), LocalTrainer(model), flatten(model), data)
    assert complaint.startswith("torch has no batched version of ")
