import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

HELD_OUT = 197


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 8, 3, padding=1)
        self.fc1 = nn.Linear(8 * 4 * 4, 32)
        self.fc2 = nn.Linear(32, 10)

    def forward(self, x):
        x = nn.functional.max_pool2d(torch.relu(self.conv(x)), 2)
        return self.fc2(torch.relu(self.fc1(x.flatten(1))))


def images_and_labels():
    images, labels = load_digits(return_X_y=True)
    return torch.tensor(images, dtype=torch.float32).reshape(-1, 1, 8, 8) / 16, torch.tensor(labels)


def load_data(partition_id, num_partitions, batch_size):
    images, labels = (each[HELD_OUT:][partition_id::num_partitions] for each in images_and_labels())
    parts = TensorDataset(images[20:], labels[20:]), TensorDataset(images[:20], labels[:20])
    return DataLoader(parts[0], batch_size=batch_size, shuffle=True), DataLoader(parts[1], batch_size=batch_size)


def load_centralized_dataset():
    images, labels = images_and_labels()
    return DataLoader(TensorDataset(images[:HELD_OUT], labels[:HELD_OUT]), batch_size=64)


def train(net, loader, epochs, lr, device):
    net.to(device).train()
    optimizer, total = torch.optim.SGD(net.parameters(), lr=lr, momentum=0.9), 0.0
    for _ in range(epochs):
        for images, labels in loader:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(net(images.to(device)), labels.to(device))
            loss.backward()
            optimizer.step()
            total += loss.item()
    return total / epochs / len(loader)


@torch.no_grad()
def test(net, loader, device):
    net.to(device).eval()
    loss, right = 0.0, 0
    for images, labels in loader:
        outputs = net(images.to(device))
        loss += nn.functional.cross_entropy(outputs, labels.to(device), reduction="sum").item()
        right += (outputs.argmax(1) == labels.to(device)).sum().item()
    return loss / len(loader.dataset), right / len(loader.dataset)
