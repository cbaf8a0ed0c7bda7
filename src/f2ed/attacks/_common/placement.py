"""What each malicious client sends so that the mean of its shard lands on a target."""

import numpy as np

from f2ed.attacks._common.scene import Scene, shard_of_each
from f2ed.core.arrays import Array, like

__all__ = ["land"]


def land(targets: Array, scene: Scene) -> Array:
    """Turn targets for the contaminated shards, in shard order, into updates of the malicious clients, [m, d].

    Of the members of a shard H, k are malicious. Each of these sends (|H| target - S) / k, where S is the sum of the
    honest members' updates: known, or estimated as |H| - k times the mean of the malicious clients' own updates. The
    masks hide the larger updates, up to the range that updates are clipped to.
    """
    view = scene.view
    mine = shard_of_each(view, view.malicious)
    bad, place, attackers = np.unique(mine, return_inverse=True, return_counts=True)
    sizes = np.array([len(view.shards[shard]) for shard in bad], np.float64)
    if view.benign is None:
        others = like(targets, sizes - attackers)[:, None] * view.own.mean(0)
    else:
        theirs = shard_of_each(view, view.honest)
        others = like(targets, (theirs == bad[:, None]).astype(np.float64)) @ view.benign
    sent = (like(targets, sizes)[:, None] * targets - others) / like(targets, attackers.astype(np.float64))[:, None]
    return sent[place]
