"""How much of the clients' images a coalition found: shares, signal-to-noise ratios, and a row of pictures."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from f2ed.audit.coalitions.cohort import HelpedRound, Vectors
from f2ed.audit.coalitions.findings import CoalitionFinding, Target
from f2ed.audit.findings import interval_of_mean
from f2ed.audit.images import RECOGNIZED, match, psnr
from f2ed.audit.server_view import as_pixels
from f2ed.core.randomness import stream

__all__ = ["SHOWN", "Row", "by_chance", "picture", "scored"]

SHOWN = 10
"""Images in a picture."""
_CHANCES = 5
"""How many other images are compared for each client's."""


@dataclass(frozen=True, eq=False)
class Row:
    """The same clients' images as one coalition sees them, [height, width, channels]."""

    name: str
    caption: str
    pixels: NDArray[np.uint8]


def scored(
    it: HelpedRound,
    target: Target,
    coalition: str,
    clients: Sequence[int],
    found: Vectors,
    file: str = "",
    rounds: int = 1,
) -> Iterator[CoalitionFinding | Row]:
    """Yield how near the found images are to the true ones, and a picture of them if it is to have a name."""
    true = it.pixels(clients)
    average = as_pixels(it.data.test.images.mean(dim=0, keepdim=True), it.data.black, it.data.white)
    near, guessed = psnr(true, found), psnr(true, np.broadcast_to(average, true.shape))
    draws = stream(it.seed, "intervals", it.name, coalition)
    measures: dict[str, tuple[Vectors, Vectors]] = {
        "share recovered": ((near > RECOGNIZED).astype(float), (guessed > RECOGNIZED).astype(float)),
        "PSNR, dB": (near, guessed),
    }
    for metric, (values, guess) in measures.items():
        yield CoalitionFinding(
            target=target,
            coalition=coalition,
            model=it.name,
            metric=metric,
            rounds=rounds,
            found=interval_of_mean(values, draws),
            guess=float(np.mean(guess)),
        )
    if file:
        yield picture(it, file, coalition, clients, found)


def picture(it: HelpedRound, name: str, caption: str, clients: Sequence[int], images: Vectors) -> Row:
    """Show the first clients' images; black where a client is not among those whose images were looked for."""
    size = len(it.samples[0])
    everyone = np.zeros((it.clients, size, *images.shape[1:]))
    everyone[list(clients)] = images.reshape(len(clients), size, *images.shape[1:])
    row = np.concatenate(list(everyone.reshape(-1, *images.shape[1:])[:SHOWN]), axis=2).clip(0, 1)
    pixels = np.asarray(np.rint(255 * row.transpose(1, 2, 0)), dtype=np.uint8)
    return Row(f"{it.name}_{name}", f"{caption}, {it.name} model", pixels)


def by_chance(it: HelpedRound, coalition: str, clients: Sequence[int], candidates: Vectors) -> CoalitionFinding:
    """Return how many images of the same classes that no client has would count as recovered."""
    rng, test = stream(it.seed, "audit", "by chance", it.name), it.data.test
    labels = np.concatenate([np.asarray(it.samples[client].labels) for client in clients])
    known = np.asarray(test.labels)
    chosen = np.array([rng.choice(np.flatnonzero(known == label), _CHANCES) for label in labels]).T
    near = []
    for some in chosen:
        others = as_pixels(test.images[some], it.data.black, it.data.white)
        near.append(psnr(others, match(others, candidates)))
    hits = (np.concatenate(near) > RECOGNIZED).astype(float)
    draws = stream(it.seed, "intervals", it.name, coalition, "by chance")
    return CoalitionFinding(
        target="images",
        coalition=f"{coalition}, images that no client has",
        model=it.name,
        metric="share recovered by chance",
        found=interval_of_mean(hits, draws),
    )
