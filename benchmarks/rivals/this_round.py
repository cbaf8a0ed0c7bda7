"""What a server knows in a round beyond the updates: rivals' rules ask for the model, ours do not."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from f2ed.core.errors import ConfigError

__all__ = ["ThisRound", "now", "serving"]


@dataclass(frozen=True)
class ThisRound:
    """The global model and its tensors, the number of the round, and what a rule kept from the round before."""

    model: Tensor
    names: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]
    number: int = 0
    memory: Mapping[str, Any] = field(default_factory=dict)
    remembered: dict[str, Any] = field(default_factory=dict)
    """What the last call keeps for the next round; an attacker may have called the rule before the server."""

    held_out: Any = None
    """Images and labels that the server has, for rules that need some."""

    @classmethod
    def of_rows(cls, d: int) -> "ThisRound":
        """Return a round of a model of one tensor, at zero: to try a rule on a few numbers."""
        return cls(torch.zeros(d), ("layer.weight",), ((d,),))

    def tensors(self, vector: Tensor) -> dict[str, Tensor]:
        """Return a vector [d] as the tensors of a state dict, copied."""
        sizes = [torch.Size(shape).numel() for shape in self.shapes]
        parts = vector.split_with_sizes(sizes)
        return {
            name: part.reshape(shape).clone() for name, shape, part in zip(self.names, self.shapes, parts, strict=True)
        }


_NOW: ContextVar[ThisRound | None] = ContextVar("now", default=None)
_TRIED = 4  # columns: every rule is tried on so few numbers when its settings are checked


@contextmanager
def serving(this: ThisRound) -> Iterator[None]:
    """Let rules see a round."""
    token = _NOW.set(this)
    try:
        yield
    finally:
        _NOW.reset(token)


def now(d: int) -> ThisRound:
    """Return the round that is served."""
    this = _NOW.get()
    if this is None:
        if d > _TRIED:
            raise ConfigError(
                "the rule of a rival needs the global model; run the file with benchmarks/rivals/run.py, not f2ed run"
            )
        return ThisRound.of_rows(d)
    return this
