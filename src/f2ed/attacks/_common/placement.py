"""What each malicious client sends so that the mean of its shard lands on a target."""

import numpy as np

from f2ed.attacks._common.scene import Scene, shard_of_each
from f2ed.core.arrays import Array, like

__all__ = ["land"]


def land(targets: Array, scene: Scene) -> Array:
    """Turn targets for the contaminated shards, in shard order, into updates of the malicious clients, [m, d].

    Of the members of a shard H, k are malicious. Each of these sends (|H| target - S) / k, where S is the sum of the
    honest members' updates: known, or estimated as |H| - k times the mean of the malicious clients' own updates. The
    masks hide the larger updates, up to the range that updates are clipped to. Weights count instead of members where
    clients have them.
    """
    view = scene.view
    mine = shard_of_each(view, view.malicious)
    bad, place = np.unique(mine, return_inverse=True)
    attackers = np.asarray(np.bincount(place, view.weights_of(view.malicious)), np.float64)
    sizes = np.array([view.weights_of(view.shards[shard]).sum() for shard in bad], np.float64)
    if view.benign is None:
        others = like(targets, sizes - attackers)[:, None] * view.own.mean(0)
    else:
        theirs = shard_of_each(view, view.honest)
        others = like(targets, (theirs == bad[:, None]) * view.weights_of(view.honest)) @ view.benign
    sent = (like(targets, sizes)[:, None] * targets - others) / like(targets, attackers)[:, None]
    return sent[place]
