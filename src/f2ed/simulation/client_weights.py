"""How much each client's update counts: the same for all, or by its number of samples up to a public cap."""

from collections.abc import Sequence
from typing import NamedTuple

from f2ed.core.errors import ConfigError
from f2ed.protocol.sharding import ClientId
from f2ed.simulation.config import Experiment

__all__ = ["ClientWeights", "client_weights"]


class ClientWeights(NamedTuple):
    """Public weights, none above the cap."""

    by_client: dict[ClientId, int]
    cap: int


def client_weights(experiment: Experiment, samples: Sequence[int]) -> ClientWeights | None:
    """Return the weights of clients with so many samples; None where all count the same."""
    if experiment.client_weights != "samples":
        return None
    cap = experiment.max_weight or max(samples)
    weights = {client: min(count, cap) for client, count in enumerate(samples)}
    if len(set(weights.values())) == 1:
        return None
    if not experiment.estimator.takes_weights():
        raise ConfigError(
            f"{experiment.estimator.title} has no version for rows of different weights; use another estimator, such "
            'as filter-l2, or client_weights = "equal"'
        )
    return ClientWeights(weights, max(weights.values()))
