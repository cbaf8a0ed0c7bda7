"""What attacks that learn their trigger have in common."""

import numpy as np

from f2ed.attacks._common.goal import Examples, Goal
from f2ed.attacks._common.training import MaliciousClients, Slopes
from f2ed.core.arrays import Array, namespace
from f2ed.core.errors import ConfigError

__all__ = ["learning", "sample"]


def learning(clients: MaliciousClients) -> tuple[Goal, Array, Slopes]:
    """Return the goal, the images without a trigger and the gradients, or say what is missing."""
    if clients.goal is None or clients.goal.clean is None or clients.slopes is None:
        raise ConfigError("an attack that learns its trigger needs the clean images of its goal, and `slopes`")
    return clients.goal, clients.goal.clean, clients.slopes


def sample(clients: MaliciousClients, count: int) -> Examples:
    """Draw this many images of all malicious clients together, or take all of them."""
    xp = namespace(clients.data[0].images)
    images, labels = (xp.concatenate(list(part)) for part in zip(*clients.data, strict=True))
    if len(labels) <= count:
        return Examples(images, labels)
    chosen = np.sort(clients.rng.permutation(len(labels))[:count])
    return Examples(images[chosen], labels[chosen])
