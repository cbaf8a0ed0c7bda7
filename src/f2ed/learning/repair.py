"""Clean-up after training, on a few samples that are trusted: for models that may hold a backdoor."""

import copy
from collections.abc import Callable, Iterator
from typing import Annotated, Literal

import msgspec
import torch
from torch import Tensor, nn

from f2ed.core.errors import ConfigError
from f2ed.core.randomness import stream
from f2ed.core.settings import Settings
from f2ed.learning.datasets import Samples

__all__ = ["Method", "Repair"]

Method = Literal["fine-tune", "fine-prune", "unlearn"]
Positive = Annotated[float, msgspec.Meta(gt=0.0)]
_ASCENT = 20  # steps that look for a perturbation


class Repair(Settings, frozen=True, kw_only=True):
    """How a model is repaired.

    `fine-tune` trains on the trusted samples. `fine-prune` (Liu et al., RAID 2018) first removes inputs of the last
    dense layer, those least active on trusted samples first, while the accuracy on them falls by at most `tolerance`.
    `unlearn` (after I-BAU, Zeng et al., ICLR 2022) looks for one perturbation that misleads the model on all trusted
    samples, at most `radius` long where black to white is 1, and trains on samples with and without it, in turns.
    """

    method: Method = "unlearn"
    lr: Positive = 0.05
    epochs: Annotated[int, msgspec.Meta(ge=1)] = 60
    batch_size: Annotated[int, msgspec.Meta(ge=1)] = 32
    tolerance: Annotated[float, msgspec.Meta(ge=0.0, lt=1.0)] = 0.01
    radius: Positive = 2.0
    seed: int = 0

    def __call__(self, model: nn.Module, trusted: Samples, *, contrast: float = 1.0) -> nn.Module:
        """Return a repaired copy; `contrast` is the distance of black and white in the samples."""
        if not len(trusted):
            raise ConfigError("a repair needs trusted samples; give at least one")
        repaired = copy.deepcopy(model).train()
        if self.method == "fine-prune":
            _prune(repaired, trusted, self.tolerance)
        perturb = self._perturbation(contrast) if self.method == "unlearn" else None
        optimizer = torch.optim.SGD(repaired.parameters(), lr=self.lr)
        for epoch in range(self.epochs):
            extra = None if perturb is None else perturb(repaired, trusted)
            for batch in self._batches(len(trusted), epoch):
                images, labels = trusted.images[batch], trusted.labels[batch]
                loss = nn.functional.cross_entropy(repaired(images), labels)
                if extra is not None:
                    loss = loss + nn.functional.cross_entropy(repaired(images + extra), labels)
                optimizer.zero_grad()
                loss.backward()  # type: ignore[no-untyped-call]  # torch has no annotation for it
                optimizer.step()
        return repaired.eval()

    def _batches(self, size: int, epoch: int) -> Iterator[Tensor]:
        order = torch.from_numpy(stream(self.seed, "repair", epoch).permutation(size))
        return (order[at : at + self.batch_size] for at in range(0, size, self.batch_size))

    def _perturbation(self, contrast: float) -> Callable[[nn.Module, Samples], Tensor]:
        longest = self.radius * contrast

        def look(model: nn.Module, trusted: Samples) -> Tensor:
            """Climb the loss of all samples together, within a ball."""
            found = torch.zeros_like(trusted.images[:1])
            for _ in range(_ASCENT):
                found.requires_grad_()
                loss = nn.functional.cross_entropy(model(trusted.images + found), trusted.labels)
                (slope,) = torch.autograd.grad(loss, found)
                moved = found.detach() + slope * (longest / 4 / slope.norm().clamp_min(1e-12))
                found = moved * (longest / moved.norm().clamp_min(longest))
            return found

        return look


def _prune(model: nn.Module, trusted: Samples, tolerance: float) -> None:
    """Zero the weights of inputs of the last dense layer, in place, while the model stays accurate."""
    dense = [layer for layer in model.modules() if isinstance(layer, nn.Linear)]
    if not dense:
        raise ConfigError("fine-prune needs a model with a dense layer; use fine-tune or unlearn")
    last, seen = dense[-1], []
    handle = last.register_forward_pre_hook(lambda _layer, inputs: seen.append(inputs[0].abs().mean(0)))
    with torch.no_grad():
        before = _accuracy(model, trusted)
        handle.remove()
        for unit in seen[0].argsort():
            kept = last.weight[:, unit].clone()
            last.weight[:, unit] = 0
            if before - _accuracy(model, trusted) > tolerance:
                last.weight[:, unit] = kept
                return


def _accuracy(model: nn.Module, samples: Samples) -> float:
    return float((model(samples.images).argmax(1) == samples.labels).double().mean())
