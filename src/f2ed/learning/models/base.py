"""The model interface: a frozen setting that builds an `nn.Module` with seeded weights when called."""

from abc import abstractmethod

import torch
from torch import nn

from f2ed.core.randomness import stream
from f2ed.core.settings import Settings

__all__ = ["Model"]


class Model(Settings, frozen=True, tag_field="kind", forbid_unknown_fields=True):
    """A classifier, by its settings."""

    def __call__(self, shape: tuple[int, ...], classes: int, seed: int) -> nn.Module:
        """Build the module for samples of `shape`; the same seed gives the same weights.

        PyTorch's global random state is left unchanged.
        """
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(int(stream(seed, "model").integers(2**63)))
            return self.build(shape, classes)

    @abstractmethod
    def build(self, shape: tuple[int, ...], classes: int) -> nn.Module:
        """Build the module with weights from PyTorch's current random numbers."""
