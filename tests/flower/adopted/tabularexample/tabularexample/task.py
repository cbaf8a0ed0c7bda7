import torch
from sklearn.datasets import load_breast_cancer
from torch import nn


class IncomeClassifier(nn.Module):
    def __init__(self, inputs=30):
        super().__init__()
        self.layer1 = nn.Linear(inputs, 16)
        self.output = nn.Linear(16, 1)

    def forward(self, x):
        return self.output(torch.relu(self.layer1(x)))


def load_data(partition_id, num_partitions):
    table, labels = load_breast_cancer(return_X_y=True)
    table = torch.tensor((table - table.mean(0)) / table.std(0), dtype=torch.float32)
    labels = torch.tensor(labels, dtype=torch.float32)[:, None]
    return table[partition_id::num_partitions], labels[partition_id::num_partitions]


def train(model, data, lr, epochs=10):
    optimizer = torch.optim.Adam(model.parameters(), lr=lr)
    for _ in range(epochs):
        optimizer.zero_grad()
        loss = nn.functional.binary_cross_entropy_with_logits(model(data[0]), data[1])
        loss.backward()
        optimizer.step()
    return loss.item()


@torch.no_grad()
def evaluate(model, data):
    return ((model(data[0]) > 0).float() == data[1]).float().mean().item()
