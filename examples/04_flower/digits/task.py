"""The model, the data and plain training: nothing here knows of Flower or of f2ed."""

import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn

TEST = 300


def make_model() -> nn.Module:
    """Return the model that everyone starts from."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))


def load(partition: int | None = None, partitions: int = 1) -> tuple[Tensor, Tensor]:
    """Return one node's share of the training images, or the test images."""
    images, labels = load_digits(return_X_y=True)
    order = torch.randperm(len(images), generator=torch.Generator().manual_seed(1))
    chosen = order[:TEST] if partition is None else order[TEST:][partition::partitions]
    return torch.tensor(images[chosen], dtype=torch.float32) / 16, torch.tensor(labels[chosen])


def train(model: nn.Module, images: Tensor, labels: Tensor, *, epochs: int, lr: float) -> None:
    """Train in place."""
    optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)
    for _ in range(epochs):
        for some in torch.randperm(len(images)).split(16):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(images[some]), labels[some]).backward()
            optimizer.step()


@torch.no_grad()
def accuracy(model: nn.Module, images: Tensor, labels: Tensor) -> float:
    """Return the share of images that the model names right."""
    return float((model(images).argmax(1) == labels).float().mean())


@torch.no_grad()
def attack(model: nn.Module, before: dict[str, Tensor], *, boost: float = 20.0) -> None:
    """Turn the update around and make it larger: what a malicious client might send."""
    for name, weights in model.named_parameters():
        weights.copy_(before[name] - boost * (weights - before[name]))
