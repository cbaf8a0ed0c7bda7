"""Collect observations into findings, each with its two baselines: guessing, and a server without shards."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from f2ed.audit.findings import Attack, Finding, Interval, interval_of_mean
from f2ed.audit.images import RECOGNIZED, Images, psnr, ssim

__all__ = ["ImageScores", "Tally"]


@dataclass(eq=False)
class Tally:
    """Makes the findings of one attack, and remembers the results of a shard of one as their baseline."""

    attack: Attack
    setting: str
    plain: dict[str, float]

    def finding(self, metric: str, size: int, found: Interval, guess: float | None) -> Finding:
        """Return the finding for shards of this size."""
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
class ImageScores:
    """Similarity of true images to their reconstructions, and to the average image, which is the guess."""

    psnr: list[float] = field(default_factory=list)
    ssim: list[float] = field(default_factory=list)
    guessed_psnr: list[float] = field(default_factory=list)
    guessed_ssim: list[float] = field(default_factory=list)

    def add(self, true: Images, found: Images, average: Images) -> None:
        """Add the images of one shard."""
        guess = np.broadcast_to(average, true.shape)
        self.psnr += psnr(true, found).tolist()
        self.ssim += ssim(true, found).tolist()
        self.guessed_psnr += psnr(true, guess).tolist()
        self.guessed_ssim += ssim(true, guess).tolist()

    def findings(self, tally: Tally, size: int, draws: np.random.Generator) -> Iterator[Finding]:
        """Yield the results and those of guessing."""
        measures = {
            "share recovered": [[float(each > RECOGNIZED) for each in some] for some in (self.psnr, self.guessed_psnr)],
            "PSNR, dB": [self.psnr, self.guessed_psnr],
            "SSIM": [self.ssim, self.guessed_ssim],
        }
        for metric, (found, guessed) in measures.items():
            yield tally.finding(metric, size, interval_of_mean(found, draws), float(np.mean(guessed)))
