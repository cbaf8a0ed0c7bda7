"""The factor by which a malicious client scales its update so that averaging does not dilute it."""

from typing import Literal

import numpy as np
import numpy.typing as npt

from f2ed.attacks.base import Positive
from f2ed.protocol.sharding import ClientId

__all__ = ["Boost", "boosts"]

Boost = Positive | Literal["replacement", "shard"]
"""A factor; or "replacement", the number of rows per malicious one, with which a plain mean becomes what they trained;
or "shard", the size of the own shard divided by the number of malicious clients in it."""


def boosts(
    boost: Boost,
    shards: tuple[tuple[ClientId, ...], ...],
    malicious: tuple[ClientId, ...],
    *,
    shard_aware: bool,
) -> npt.NDArray[np.float64]:
    """Return the factor of each malicious client, [m]; the same [1] for all where the rows are shard means.

    A shard-aware attacker takes the size of its shard into account in `land`.
    """
    bad = set(malicious)
    share = {client: len(members) / len(bad & set(members)) for members in shards for client in bad & set(members)}
    match boost:
        case "replacement" if shard_aware:
            return np.array([len(shards) / sum(not bad.isdisjoint(members) for members in shards)])
        case "replacement":
            return np.full(len(malicious), sum(map(len, shards)) / len(malicious))
        case "shard":
            return np.ones(1) if shard_aware else np.array([share[client] for client in malicious])
        case factor:
            return np.full(1 if shard_aware else len(malicious), float(factor))
