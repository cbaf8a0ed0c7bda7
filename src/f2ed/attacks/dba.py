"""DBA, the distributed backdoor (Xie et al., ICLR 2020)."""

from collections.abc import Sequence
from typing import Annotated

import msgspec
import numpy as np
import numpy.typing as npt

from f2ed.attacks._common.backdoor import Backdoor
from f2ed.attacks._common.goal import Palette
from f2ed.attacks._common.scene import Scene
from f2ed.attacks._common.training import MaliciousClients
from f2ed.attacks._common.triggers import Bars, Box
from f2ed.attacks.base import Variant
from f2ed.core.arrays import Array, like, namespace

__all__ = ["DBA"]

_KINDS = 4
Flags = npt.NDArray[np.bool_]


class DBA(Backdoor, frozen=True, kw_only=True, tag="dba"):
    """Split the trigger into four bars, one for each kind of malicious client, and measure the four together.

    By default all attack in every round. With `rounds`, the first kind attacks in the first round named alone,
    the second in the second, and so on, and they train honestly otherwise: the inventors' single shot, for which they
    boost. The authors' variant poisons half of the images for 20 epochs and measures the last
    bar alone, since the whole trigger is never painted in their code.
    """

    title = "Distributed backdoor"
    family = "backdoor"
    paper = "Xie et al., ICLR 2020"

    trigger: Bars = Bars()
    rounds: Annotated[tuple[int, ...], msgspec.Meta(min_length=1, max_length=_KINDS)] | None = None
    variant: Variant = "original"

    def __post_init__(self) -> None:
        # A ValueError here reaches the reader of an experiment file with its path.
        if self.rounds and self.shard_aware:
            raise ValueError("dba: rounds name single clients' turns, so they need shard_aware = false")

    def as_run(self) -> "DBA":
        """Fix what the authors' code fixes."""
        return self if self.variant == "original" else msgspec.structs.replace(self, share=0.5, epochs=20, rounds=None)

    def marks(self, images: Array, rank: int | None) -> Sequence[Box]:
        """Return one bar for an attacker, and all of them to measure."""
        bars = self.trigger.boxes(images)
        if rank is None:
            return bars if self.variant == "original" else bars[-1:]
        return [bars[rank % _KINDS]]

    def shade(self, palette: Palette) -> float:
        """Paint before the normalization."""
        return palette.shade(self.trigger.value)

    def train(self, clients: MaliciousClients) -> Array:
        """Train on the poisoned data those whose round it is, and the others as the honest do."""
        active = self._active(clients.round, len(clients.malicious))
        if not active.any():
            return clients.train(clients.data)
        poisoned = super().train(clients)
        if active.all():
            return poisoned
        honest = clients.train(clients.data)
        return namespace(honest).where(_column(active, honest), poisoned, honest)

    def craft(self, scene: Scene) -> Array:
        """Boost what those send whose round it is."""
        if self.shard_aware:
            return super().craft(scene)
        active = self._active(scene.view.round, scene.view.m)
        return namespace(scene.own).where(_column(active, scene.own), super().craft(scene), scene.own)

    def _active(self, current: int, malicious: int) -> Flags:
        rounds = self.as_run().rounds
        if rounds is None:
            return np.ones(malicious, bool)
        return np.array([kind < len(rounds) and rounds[kind] == current for kind in np.arange(malicious) % _KINDS])


def _column(flags: Flags, rows: Array) -> Array:
    return like(rows, flags.astype(np.float64))[:, None] > 0
