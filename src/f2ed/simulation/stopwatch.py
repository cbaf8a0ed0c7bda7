"""How long each stage of a round takes."""

from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter

import torch

from f2ed.records import Seconds

__all__ = ["Stopwatch"]


class Stopwatch:
    """Adds up wall-clock time by stage; on a GPU it waits for the work to be done."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._spent: dict[str, float] = {}

    @contextmanager
    def __call__(self, stage: str) -> Iterator[None]:
        """Time what happens inside."""
        since = perf_counter()
        yield
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)
        self.add(stage, perf_counter() - since)

    def add(self, stage: str, seconds: float) -> None:
        """Count time that was measured elsewhere; less than zero takes it away."""
        self._spent[stage] = self._spent.get(stage, 0.0) + seconds

    def read(self) -> Seconds:
        """Return what was spent so far."""
        return Seconds(**{stage: round(seconds, 6) for stage, seconds in self._spent.items()})
