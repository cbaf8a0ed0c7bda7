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
from f2ed.core.errors import SettingError

__all__ = ["DBA"]

_GROUPS = 4
Flags = npt.NDArray[np.bool_]


class DBA(Backdoor, frozen=True, kw_only=True, tag="dba"):
    """Split a trigger into four bars, one for each group of malicious clients; all four together are the backdoor.

    By default all attack in every round. With `rounds`, the first group attacks only in the first round listed, the
    second group in the second, and so on, and they train honestly otherwise: the original single-shot attack, which
    boosts the update. The released variant poisons half of the images for 20 epochs and measures success with the last
    bar alone, since that code never paints the whole trigger.
    """

    title = "Distributed backdoor"
    family = "backdoor"
    paper = "Xie et al., ICLR 2020"

    trigger: Bars = Bars()
    rounds: Annotated[tuple[int, ...], msgspec.Meta(min_length=1, max_length=_GROUPS)] | None = None
    variant: Variant = "original"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.rounds and self.shard_aware:
            raise SettingError("dba: rounds are turns of single clients, so they need shard_aware = false")

    def as_run(self) -> "DBA":
        """Apply the settings that the released code fixes."""
        return self if self.variant == "original" else msgspec.structs.replace(self, share=0.5, epochs=20, rounds=None)

    def marks(self, images: Array, rank: int | None) -> Sequence[Box]:
        """Return one bar for a malicious client, and all of them for measuring success."""
        bars = self.trigger.boxes(images)
        if rank is None:
            return bars if self.variant == "original" else bars[-1:]
        return [bars[rank % _GROUPS]]

    def shade(self, palette: Palette) -> float:
        """Paint before normalization."""
        return palette.shade(self.trigger.value)

    def train(self, clients: MaliciousClients) -> Array:
        """Train on poisoned data the clients whose turn it is, and the others honestly."""
        active = self._active(clients.round, len(clients.malicious))
        if not active.any():
            return clients.train(clients.data)
        poisoned = super().train(clients)
        if active.all():
            return poisoned
        honest = clients.train(clients.data)
        return namespace(honest).where(_column(active, honest), poisoned, honest)

    def craft(self, scene: Scene) -> Array:
        """Boost the updates of the clients whose turn it is."""
        if self.shard_aware:
            return super().craft(scene)
        active = self._active(scene.view.round, scene.view.m)
        return namespace(scene.own).where(_column(active, scene.own), super().craft(scene), scene.own)

    def _active(self, current: int, malicious: int) -> Flags:
        rounds = self.as_run().rounds
        if rounds is None:
            return np.ones(malicious, bool)
        return np.array([group < len(rounds) and rounds[group] == current for group in np.arange(malicious) % _GROUPS])


def _column(flags: Flags, rows: Array) -> Array:
    return like(rows, flags.astype(np.float64))[:, None] > 0
