from types import SimpleNamespace

import torch
from torch import nn

WORDS, LENGTH = 41, 10


class Classifier(nn.Module):
    """A small transformer that is called as those of Hugging Face are."""

    def __init__(self):
        super().__init__()
        self.embeddings = nn.Embedding(WORDS, 16)
        self.encoder = nn.TransformerEncoderLayer(16, nhead=2, dim_feedforward=32, dropout=0.0, batch_first=True)
        self.classifier = nn.Linear(16, 2)

    def forward(self, input_ids, labels):
        logits = self.classifier(self.encoder(self.embeddings(input_ids)).mean(1))
        return SimpleNamespace(loss=nn.functional.cross_entropy(logits, labels), logits=logits)


def load_data(partition_id, num_partitions):
    draws = torch.Generator().manual_seed(3)
    labels = torch.randint(2, (480,), generator=draws)
    own = 1 + 20 * labels[:, None] + torch.randint(20, (480, LENGTH), generator=draws)
    texts = torch.where(torch.rand((480, LENGTH), generator=draws) < 0.7, own, 0)
    texts, labels = texts[partition_id::num_partitions], labels[partition_id::num_partitions]
    return [{"input_ids": some, "labels": each} for some, each in zip(texts.split(16), labels.split(16), strict=True)]


def train(net, batches, steps, lr):
    optimizer = torch.optim.SGD(net.parameters(), lr=lr, momentum=0.9)
    net.train()
    for step in range(steps):
        loss = net(**batches[step % len(batches)]).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    return loss.item()


@torch.no_grad()
def test(net, batches):
    net.eval()
    right = sum((net(**batch).logits.argmax(1) == batch["labels"]).sum().item() for batch in batches)
    return right / sum(len(batch["labels"]) for batch in batches)
