import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(64, 32)
        self.fc2 = nn.Linear(32, 10)

    def forward(self, x):
        return self.fc2(torch.relu(self.fc1(x)))


def load_data(partition_id, num_partitions):
    images, labels = load_digits(return_X_y=True)
    data = TensorDataset(torch.tensor(images, dtype=torch.float32) / 16, torch.tensor(labels))
    mine = range(partition_id, len(data), num_partitions)
    train, test = list(mine)[:-20], list(mine)[-20:]
    loader = lambda rows, **how: DataLoader(torch.utils.data.Subset(data, rows), batch_size=16, **how)  # noqa: E731
    return loader(train, shuffle=True), loader(test)


def train(net, loader, epochs, lr):
    optimizer = torch.optim.SGD(net.parameters(), lr=lr, momentum=0.9)
    total = 0.0
    for _ in range(epochs):
        for images, labels in loader:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(net(images), labels)
            loss.backward()
            optimizer.step()
            total += loss.item()
    return total / len(loader) / epochs


@torch.no_grad()
def test(net, loader):
    right = sum((net(images).argmax(1) == labels).sum().item() for images, labels in loader)
    return right / len(loader.dataset)
