"""KA, the attack on Krum (Fang et al., USENIX Security 2020).

The crafted row is -λ times the sign of the summed updates, with the largest λ at which Krum still selects it, found by
halving. Distances from it are quadratics in λ: after one pass over the honest rows a step of the search costs n², in
any dimension.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Self

import numpy as np
import numpy.typing as npt

from f2ed.attacks._common.scene import Scene
from f2ed.attacks.base import Attack, Positive, Variant
from f2ed.core.arrays import Array, namespace, to_numpy
from f2ed.estimators import Matrix, krum_scores

__all__ = ["KrumAttack"]

Vector = npt.NDArray[np.float64]


class KrumAttack(Attack, frozen=True, tag="krum-attack"):
    """Send the row farthest against the update's sign that Krum still selects, and near copies of it.

    If Krum selects none with λ above `threshold`, the malicious clients give up and send what they trained. With
    partial knowledge they simulate Krum on their own updates, with one crafted row, then two, and so on. The released
    variant searches each parameter tensor separately from λ = 1 down to 1e-8, simulates Krum with f = 1 and plain
    distances instead of squared ones, and sends the result of the search even if it failed.
    """

    title = "Krum attack"
    family = "untargeted"
    paper = "Fang et al., USENIX Security 2020"
    aliases = ("ka",)

    threshold: Positive = 1e-5
    variant: Variant = "original"

    def craft(self, scene: Scene) -> Array:
        """Search, then place the other malicious rows close to the crafted one."""
        if self.variant == "released":
            return -_per_tensor(scene) * scene.heading
        found = self._search(scene)
        if found is None:
            return scene.own
        e = 1e-5 / scene.d
        offsets = scene.view.rng.uniform(-e, e, (scene.m, scene.d))
        offsets[0] = 0
        return scene.like(offsets) - found * scene.heading

    def _search(self, scene: Scene) -> float | None:
        contest = _Contest.between(scene.honest, scene.heading)
        counts = range(1, scene.m + 1) if self.knowledge == "partial" else [scene.m]
        for crafted in counts:
            start = contest.upper_bound(crafted)
            for factor in _halved(start, self.threshold):
                if contest.won(factor, crafted, f=crafted):
                    return factor
        return None


@dataclass(frozen=True)
class _Contest:
    """Krum between honest rows and copies of -λ s, from their inner products alone."""

    squares: Vector
    lengths: Vector
    along: Vector
    size: int
    """The squared norm of s: the number of its nonzero coordinates."""

    @classmethod
    def between(cls, honest: Array, heading: Array) -> Self:
        lengths = to_numpy(namespace(honest).einsum("ij,ij->i", honest, honest)).astype(np.float64)
        along = to_numpy(honest @ heading).astype(np.float64)
        return cls(Matrix(honest).squares, lengths, along, int((heading != 0).sum()))

    def upper_bound(self, crafted: int) -> float:
        """Return the λ beyond which Krum cannot select the crafted row, provided that it tolerates this many."""
        honest = len(self.squares)
        gap = max(honest + crafted - 2 * crafted - 1, 1)
        nearest = np.sqrt(self.squares).sum(1).min() / gap
        return float((nearest + np.sqrt(self.lengths.max())) / np.sqrt(max(self.size, 1)))

    def won(self, factor: float, crafted: int, *, f: int, squared: bool = True) -> bool:
        """Return whether Krum selects a crafted row; they come first, so they win ties."""
        n = crafted + len(self.squares)
        apart = np.zeros((n, n))
        apart[crafted:, crafted:] = self.squares
        far = np.maximum(self.lengths + 2 * factor * self.along + factor**2 * self.size, 0)
        apart[:crafted, crafted:] = far
        apart[crafted:, :crafted] = far[:, None]
        # Where more rows are malicious than Krum tolerates, simulate it with the largest f it does.
        f = max(min(f, (n - 3) // 2), 0)
        return int(np.argmin(krum_scores(apart if squared else np.sqrt(apart), f))) < crafted


def _halved(start: float, end: float) -> Iterator[float]:
    while start > end:
        yield start
        start /= 2


def _per_tensor(scene: Scene) -> Array:
    """Search each tensor separately, like the released code; return the λ of every coordinate."""
    factors = np.empty(scene.d)
    for low, high in pairwise(accumulate(scene.view.tensors, initial=0)):
        contest = _Contest.between(scene.honest[:, low:high], scene.heading[low:high])
        tried = 1.0
        while tried >= 1e-8 and not contest.won(tried, scene.m, f=1, squared=False):
            tried /= 2
        factors[low:high] = tried
    return scene.like(factors)
