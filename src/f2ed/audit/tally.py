"""Observations that become findings: each with what guessing reaches, and what a server without shards does."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from f2ed.audit.findings import Attack, Finding, Interval, interval_of_mean
from f2ed.audit.images import RECOGNISED, Images, psnr, ssim

__all__ = ["Likeness", "Tally"]


@dataclass(eq=False)
class Tally:
    """Collects observations by metric, and makes findings of them that know what a shard of one gives."""

    attack: Attack
    setting: str
    plain: dict[str, float]

    def finding(self, metric: str, size: int, found: Interval, guess: float | None) -> Finding:
        """Return what was found in shards of a size."""
        if size == 1:
            self.plain[metric] = found.value
        return Finding(
            attack=self.attack,
            metric=metric,
            shard=size,
            setting=self.setting,
            found=found,
            guess=guess,
            plain=self.plain.get(metric),
        )


@dataclass(eq=False)
class Likeness:
    """How alike true images and recovered ones are, and true ones and the average image, which is the guess."""

    psnr: list[float] = field(default_factory=list)
    ssim: list[float] = field(default_factory=list)
    guessed_psnr: list[float] = field(default_factory=list)
    guessed_ssim: list[float] = field(default_factory=list)

    def add(self, true: Images, found: Images, average: Images) -> None:
        """Take in the images of one shard."""
        guess = np.broadcast_to(average, true.shape)
        self.psnr += psnr(true, found).tolist()
        self.ssim += ssim(true, found).tolist()
        self.guessed_psnr += psnr(true, guess).tolist()
        self.guessed_ssim += ssim(true, guess).tolist()

    def findings(self, tally: Tally, size: int, draws: np.random.Generator) -> Iterator[Finding]:
        """Yield what was reached, and what guessing reaches."""
        measures = {
            "share recovered": [[float(each > RECOGNISED) for each in some] for some in (self.psnr, self.guessed_psnr)],
            "PSNR, dB": [self.psnr, self.guessed_psnr],
            "SSIM": [self.ssim, self.guessed_ssim],
        }
        for metric, (found, guessed) in measures.items():
            yield tally.finding(metric, size, interval_of_mean(found, draws), float(np.mean(guessed)))
