"""Which clients are malicious: drawn at random, or chosen by where the shards are."""

from collections.abc import Sequence
from itertools import zip_longest

from f2ed.core.randomness import stream
from f2ed.protocol.sharding import ClientId
from f2ed.simulation.config import Experiment

__all__ = ["malicious_clients"]

Shards = Sequence[Sequence[ClientId]]


def malicious_clients(experiment: Experiment, shards: Shards) -> tuple[ClientId, ...]:
    """Return the malicious clients in ascending order; `shards` are those of the first round.

    All placements draw from the same random order of the clients.
    """
    drawn = [int(client) for client in stream(experiment.seed, "malicious").permutation(experiment.clients)]
    match experiment.placement:
        case "spread":
            order = [client for turn in zip_longest(*_by_shard(drawn, shards)) for client in turn if client is not None]
        case "packed":
            order = [client for members in _by_shard(drawn, shards) for client in members]
        case None:
            order = drawn
    return tuple(sorted(order[: experiment.malicious]))


def _by_shard(drawn: Sequence[ClientId], shards: Shards) -> list[list[ClientId]]:
    """Return the members of each shard in the order drawn, and the shards by their first member."""
    rank = {client: place for place, client in enumerate(drawn)}
    return sorted((sorted(members, key=rank.__getitem__) for members in shards), key=lambda members: rank[members[0]])
