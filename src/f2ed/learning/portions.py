"""Equal portions of chosen labels for every client."""

import numpy as np
from numpy.typing import NDArray

from f2ed.core.errors import ConfigError

__all__ = ["Indices", "assign_portions", "draw_labels", "labels_for", "portions_of"]

Indices = NDArray[np.int64]


def labels_for(labels: Indices, each: int) -> tuple[Indices, Indices]:
    """Return the labels of the data and their counts; refuse if there are too few labels for a client."""
    present, counts = np.unique(labels, return_counts=True)
    if each > len(present):
        raise ConfigError(
            f"found classes_per_client = {each}, but the data has {len(present)} classes; use at most {len(present)}"
        )
    return present, counts


def draw_labels(labels: int, each: int, clients: int, rng: np.random.Generator) -> Indices:
    """Return `[clients, each]` distinct labels, every label used equally often to within one.

    Each client takes the labels least used so far, ties broken at random, which keeps the counts within one of each
    other at every step.
    """
    uses = np.zeros(labels, dtype=np.int64)
    chosen = np.empty((clients, each), dtype=np.int64)
    for client in range(clients):
        chosen[client] = np.lexsort((rng.random(labels), uses))[:each]
        uses[chosen[client]] += 1
    return chosen[rng.permutation(clients)]


def portions_of(chosen: Indices, counts: Indices) -> Indices:
    """Return how many samples of each label every client with that label gets."""
    return counts // np.maximum(np.bincount(chosen.ravel(), minlength=len(counts)), 1)


def assign_portions(labels: Indices, chosen: Indices, portions: Indices, rng: np.random.Generator) -> list[Indices]:
    """Give each client the portion of each of its `chosen` labels; no sample goes to two."""
    if portions[chosen].min() == 0:
        raise ConfigError(
            f"{len(labels)} samples are too few for {len(chosen)} clients with {chosen.shape[1]} labels each: "
            "one label has fewer samples than clients; use fewer clients or labels per client"
        )
    piles = [rng.permutation(np.flatnonzero(labels == label)) for label in np.unique(labels)]
    taken = np.zeros(len(piles), dtype=np.int64)
    assigned = []
    for mine in chosen:
        parts = [piles[label][taken[label] : taken[label] + portions[label]] for label in mine]
        taken[mine] += portions[mine]
        assigned.append(rng.permutation(np.concatenate(parts)))
    return assigned
