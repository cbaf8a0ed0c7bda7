"""MiniLM (Wang et al. 2020) with adapters of low rank (LoRA, Hu et al. 2022) for classifying texts.

The encoder stays as it was trained. The query and value matrices of each layer get an addition B·A of low rank; A is
drawn once and is the same for all clients, and only B and the classifier are trained and sent (FFA-LoRA, Sun et al.
2024). So the mean of the clients' B gives exactly the mean of their additions, which would not hold if both changed.
"""

import math
from typing import Annotated

import msgspec
import torch
from torch import Tensor, nn
from torch.nn import functional

from f2ed.core.errors import ConfigError
from f2ed.learning.datasets.bundle import read_bundle
from f2ed.learning.datasets.newsgroups import MINILM
from f2ed.learning.datasets.wordpiece import PAD
from f2ed.learning.models.base import Model
from f2ed.learning.saved import tensors_of

__all__ = ["Encoder", "MiniLm"]

_HEAD = 32
"""The width of an attention head."""


class MiniLm(Model, frozen=True, tag="minilm"):
    """A frozen sentence encoder for tokens `[b, t]` with adapters of this `rank`, and a linear classifier.

    With rank 0 only the classifier is trained. The weights are downloaded if missing: `f2ed data minilm --fetch`.
    """

    rank: Annotated[int, msgspec.Meta(ge=0)] = 8
    scale: Annotated[float, msgspec.Meta(gt=0)] = 2.0
    """The factor of the additions."""

    def build(self, shape: tuple[int, ...], classes: int) -> nn.Module:
        """Build the module around the published weights."""
        if len(shape) != 1:
            raise ConfigError(f"samples of shape {shape}; MiniLM needs sequences of tokens, (length,)")
        weights = tensors_of(read_bundle(MINILM, None)["model.safetensors"], "the weights of MiniLM")
        return Encoder(weights, classes, rank=self.rank, scale=self.scale, length=shape[0])


class Encoder(nn.Module):
    """The encoder of BERT by its published tensors, mean pooling and a classifier."""

    def __init__(self, weights: dict[str, Tensor], classes: int, *, rank: int, scale: float, length: int) -> None:
        super().__init__()
        width = weights["embeddings.word_embeddings.weight"].shape[1]
        positions = weights["embeddings.position_embeddings.weight"]
        if length > len(positions):
            raise ConfigError(f"texts of {length} tokens; MiniLM takes at most {len(positions)}")
        layers = 1 + max(int(name.split(".")[2]) for name in weights if name.startswith("encoder.layer."))
        self.words = _frozen(weights["embeddings.word_embeddings.weight"])
        # All texts are of the first of the two types, so its embedding is part of each position's.
        self.places = _frozen(positions[:length] + weights["embeddings.token_type_embeddings.weight"][0])
        self.norm = _norm(weights, "embeddings.LayerNorm")
        # Drawn from a seed of its own: whatever the run's seed, a saved B fits the same A.
        draws = torch.Generator().manual_seed(0)
        self.layers = nn.ModuleList(_Layer(weights, f"encoder.layer.{at}", rank, scale, draws) for at in range(layers))
        self.classify = nn.Linear(width, classes)

    def forward(self, tokens: Tensor) -> Tensor:
        """Return the scores of texts."""
        present = tokens != PAD
        # Padding is ignored by a large negative number before the softmax.
        ignored = torch.where(present, 0.0, -1e9)[:, None, None, :]
        states = self.norm(functional.embedding(tokens, self.words) + self.places)
        for layer in self.layers:
            states = layer(states, ignored)
        shown = present.to(states.dtype).unsqueeze(2)
        pooled = (states * shown).sum(1) / shown.sum(1).clamp(min=1)
        scores: Tensor = self.classify(functional.normalize(pooled, dim=1))
        return scores


class _Layer(nn.Module):
    """Attention and a dense network, each with a shortcut and a normalization after it."""

    def __init__(self, weights: dict[str, Tensor], name: str, rank: int, scale: float, draws: torch.Generator) -> None:
        super().__init__()
        inside = f"{name}.attention.self"
        self.query = _Adapted(weights, f"{inside}.query", rank, scale, draws)
        self.key = _Dense(weights, f"{inside}.key")
        self.value = _Adapted(weights, f"{inside}.value", rank, scale, draws)
        self.out = _Dense(weights, f"{name}.attention.output.dense")
        self.norm = _norm(weights, f"{name}.attention.output.LayerNorm")
        self.wide = _Dense(weights, f"{name}.intermediate.dense")
        self.narrow = _Dense(weights, f"{name}.output.dense")
        self.last = _norm(weights, f"{name}.output.LayerNorm")

    def forward(self, states: Tensor, ignored: Tensor) -> Tensor:
        query, key, value = (
            part(states).unflatten(2, (-1, _HEAD)).transpose(1, 2) for part in (self.query, self.key, self.value)
        )
        seen = (query @ key.transpose(2, 3) / math.sqrt(_HEAD) + ignored).softmax(3) @ value
        states = self.norm(states + self.out(seen.transpose(1, 2).flatten(2)))
        out: Tensor = self.last(states + self.narrow(functional.gelu(self.wide(states))))
        return out


class _Dense(nn.Module):
    """A published layer, which is not trained."""

    def __init__(self, weights: dict[str, Tensor], name: str) -> None:
        super().__init__()
        self.weight, self.bias = _frozen(weights[f"{name}.weight"]), _frozen(weights[f"{name}.bias"])

    def forward(self, states: Tensor) -> Tensor:
        return functional.linear(states, self.weight, self.bias)


class _Adapted(_Dense):
    """A published layer with an addition B·A, which is zero at first; only B is trained."""

    def __init__(self, weights: dict[str, Tensor], name: str, rank: int, scale: float, draws: torch.Generator) -> None:
        super().__init__(weights, name)
        outputs, inputs = self.weight.shape
        self.scale = scale
        self.a = _frozen(torch.randn(rank, inputs, generator=draws) / math.sqrt(inputs))
        self.b = nn.Parameter(torch.zeros(outputs, rank)) if rank else None

    def forward(self, states: Tensor) -> Tensor:
        found = super().forward(states)
        if self.b is None:
            return found
        return found + self.scale * functional.linear(functional.linear(states, self.a), self.b)


def _frozen(weights: Tensor) -> nn.Parameter:
    return nn.Parameter(weights.clone(), requires_grad=False)


def _norm(weights: dict[str, Tensor], name: str) -> nn.LayerNorm:
    norm = nn.LayerNorm(len(weights[f"{name}.weight"]), eps=1e-12)
    norm.load_state_dict({"weight": weights[f"{name}.weight"], "bias": weights[f"{name}.bias"]})
    return norm.requires_grad_(requires_grad=False)
