"""A text classifier: a frozen transformer that every node has, with LoRA adapters and a classifier that travel.

With `base = "tiny"` the transformer is small and random and the texts are made up, so that nothing is downloaded; with
`base = "minilm"` it is MiniLM-L6, and the texts are postings of twenty newsgroups (`f2ed data minilm --fetch`).
"""

from functools import cache

import torch
from torch import Tensor, nn

from f2ed.learning.datasets import Newsgroups
from f2ed.learning.models.minilm import Encoder, MiniLm

TRAINED = ("*.b", "classify.*")
"""The arrays that are trained: the second factor of each adapter, and the classifier."""

WORDS, LENGTH, CLASSES, WIDTH = 60, 12, 3, 32


@cache
def data(base: str) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return the tokens and classes of the texts to train on, then of those to test on."""
    if base == "minilm":
        found = Newsgroups(features="tokens")()
        parts = (found.train.images, found.train.labels, found.test.images, found.test.labels)
        return tuple(map(torch.as_tensor, parts))  # type: ignore[return-value]
    draws = torch.Generator().manual_seed(1)
    classes = torch.randint(CLASSES, (900,), generator=draws)
    common = torch.randint(1, WORDS, (900, LENGTH), generator=draws)
    own = 1 + classes[:, None] * 20 + torch.randint(20, (900, LENGTH), generator=draws)
    texts = torch.where(torch.rand((900, LENGTH), generator=draws) < 0.8, own, common)
    return texts[:600], classes[:600], texts[600:], classes[600:]


def make_model(base: str) -> nn.Module:
    if base == "minilm":
        texts, classes, _, _ = data(base)
        return MiniLm(rank=8).build((texts.shape[1],), int(classes.max()) + 1)
    torch.manual_seed(0)
    return Encoder(random_weights(layers=2), CLASSES, rank=4, scale=2.0, length=LENGTH)


def random_weights(layers: int) -> dict[str, Tensor]:
    """Return the tensors of a small encoder under the names of the published one."""
    draws = torch.Generator().manual_seed(2)

    def dense(name: str, outputs: int, inputs: int) -> dict[str, Tensor]:
        weight = torch.randn(outputs, inputs, generator=draws) / inputs**0.5
        return {f"{name}.weight": weight, f"{name}.bias": torch.zeros(outputs)}

    def norm(name: str) -> dict[str, Tensor]:
        return {f"{name}.weight": torch.ones(WIDTH), f"{name}.bias": torch.zeros(WIDTH)}

    made = norm("embeddings.LayerNorm")
    for name, rows in (("word", 1 + CLASSES * 20), ("position", LENGTH), ("token_type", 2)):
        made[f"embeddings.{name}_embeddings.weight"] = torch.randn(rows, WIDTH, generator=draws)
    for at in range(layers):
        place = f"encoder.layer.{at}"
        for part in ("query", "key", "value"):
            made |= dense(f"{place}.attention.self.{part}", WIDTH, WIDTH)
        made |= dense(f"{place}.attention.output.dense", WIDTH, WIDTH) | norm(f"{place}.attention.output.LayerNorm")
        made |= dense(f"{place}.intermediate.dense", 2 * WIDTH, WIDTH) | dense(
            f"{place}.output.dense", WIDTH, 2 * WIDTH
        )
        made |= norm(f"{place}.output.LayerNorm")
    return made


def part_of(partition: int, partitions: int, base: str) -> tuple[Tensor, Tensor]:
    """Return every so many texts: those of one node."""
    texts, classes, _, _ = data(base)
    return texts[partition::partitions], classes[partition::partitions]


def train(model: nn.Module, texts: Tensor, classes: Tensor, *, epochs: int, lr: float) -> None:
    optimizer = torch.optim.SGD((each for each in model.parameters() if each.requires_grad), lr=lr, momentum=0.9)
    for _ in range(epochs):
        for some, wanted in zip(texts.split(32), classes.split(32), strict=True):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(some), wanted).backward()
            optimizer.step()


@torch.no_grad()
def accuracy(model: nn.Module, base: str) -> float:
    _, _, texts, classes = data(base)
    return float((model(texts).argmax(1) == classes).float().mean())
