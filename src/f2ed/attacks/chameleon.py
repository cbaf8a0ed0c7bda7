"""Chameleon, a durable backdoor in two stages (Dai and Li, ICML 2023), simplified."""

import numpy as np
import numpy.typing as npt

from f2ed.attacks._common.backdoor import Count, SquareBackdoor
from f2ed.attacks._common.goal import Examples
from f2ed.attacks._common.training import MaliciousClients
from f2ed.core.arrays import Array, to_numpy

__all__ = ["Chameleon"]


class Chameleon(SquareBackdoor, frozen=True, kw_only=True, tag="chameleon"):
    """Adapt the features of poisoned images to those of the target class first, and the classifier to them afterwards.

    Stage one trains everything but the last layer, on poisoned data in which the client's own images of the target
    class (the facilitators) appear `facilitators` times: the triggered images move to where they are. Stage two trains
    the last layer alone. The original trains stage one with a supervised contrastive loss, which also pushes images of
    the original class away; here it is the cross-entropy, with the classifier held fixed.
    """

    title = "Chameleon"
    family = "backdoor"
    paper = "after Dai and Li, ICML 2023"

    facilitators: Count = 2

    def train(self, clients: MaliciousClients) -> Array:
        """Train the features, then the last layer; a model of one layer has no features to train."""
        poisoned = self.poison(clients)
        peers = [self._with_facilitators(data) for data in poisoned]
        last = _last_layer(clients)
        if last.all():
            return clients.train(peers, overrides=self.overrides)
        masks = np.tile(last, (len(peers), 1))
        features = clients.train(peers, overrides=self.overrides, mask=~masks)
        start = clients.model + features
        return features + clients.train(poisoned, overrides=self.overrides, start=start, mask=masks)

    def _with_facilitators(self, data: Examples) -> Examples:
        """Replace other images by further copies of those of the target class, so that their number stays the same."""
        labels = np.asarray(to_numpy(data.labels))
        mine, others = np.flatnonzero(labels == self.target), np.flatnonzero(labels != self.target)
        more = np.tile(mine, self.facilitators - 1)[: len(others)]
        kept = np.concatenate([mine, others[len(more) :], more])
        kept.sort()
        return Examples(data.images[kept], data.labels[kept])


def _last_layer(clients: MaliciousClients) -> npt.NDArray[np.bool_]:
    """Return which weights belong to the last layer: its bias, with one entry for each class, and what precedes it."""
    sizes = clients.tensors or (len(clients.model),)
    count = sum(sizes[-2:]) if sizes[-1] == clients.classes else sizes[-1]
    return np.arange(sum(sizes)) >= sum(sizes) - count
