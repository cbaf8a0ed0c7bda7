"""The models of a run without an attack: what a trigger reaches against them was not planted."""

import io
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from f2ed.core.files import write_atomic
from f2ed.simulation import Experiment
from f2ed.simulation.header import digest

__all__ = ["CleanModels"]


class CleanModels(NamedTuple):
    """A file with the model before the first round and after each, [rounds + 1, d]."""

    path: Path

    @classmethod
    def of(cls, folder: Path, honest: Experiment) -> "CleanModels":
        """Return the place for the models of a run without an attack."""
        return cls(folder / f"{digest(honest)[:16]}.npy")

    def exist(self) -> bool:
        """Return whether the run was finished."""
        return self.path.exists()

    def write(self, models: Sequence[Tensor]) -> None:
        """Keep the models of a finished run."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        content = io.BytesIO()
        np.save(content, torch.stack(list(models)).cpu().numpy(), allow_pickle=False)
        write_atomic(self.path, content.getvalue(), mode=0o644)

    def around(self, round_: int) -> tuple[Tensor, Tensor]:
        """Return the models before and after a round; only these are read."""
        models = np.load(self.path, mmap_mode="r", allow_pickle=False)
        before, after = (torch.from_numpy(np.array(models[at])) for at in (round_, round_ + 1))
        return before, after
