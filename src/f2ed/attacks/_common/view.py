"""What an attacker knows when it decides what to send."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
import numpy.typing as npt

from f2ed.core.arrays import Array, as_matrix, namespace
from f2ed.core.errors import ConfigError
from f2ed.estimators import Estimator
from f2ed.protocol.sharding import ClientId

__all__ = ["AttackerView", "Knowledge"]

Knowledge = Literal["full", "partial"]
"""All updates of the round, or only the malicious clients' own."""


@dataclass(frozen=True, eq=False)
class AttackerView:
    """All that the malicious clients know together in one round, before they send anything.

    Updates are differences from the global model: a client moves it by plus its update. The rows of `own`
    are in the order of `malicious`, those of `benign` in ascending order of the honest clients' ids.
    `benign` is None if the attack has partial knowledge. Without sharding every client is its own shard.
    """

    own: Array
    """The malicious clients' trained updates, [m, d]; from honest training, unless the attack changes it."""
    benign: Array | None
    model: Array
    """The global model the round started from, [d]."""
    estimator: Estimator
    shards: tuple[tuple[ClientId, ...], ...]
    malicious: tuple[ClientId, ...]
    tensors: tuple[int, ...]
    """The sizes of the model's parameter tensors, in the order of the vector."""
    round: int
    rng: np.random.Generator
    weights: Mapping[ClientId, int] | None = None
    """How much each client counts, which is public; None where all count the same."""
    previous: Array | None = None
    """The last estimate, [d], which everyone can tell from the model; None in the first round, or if it is not used."""

    def __post_init__(self) -> None:
        clients = [client for members in self.shards for client in members]
        if not self.malicious or len(set(self.malicious)) != len(self.malicious):
            raise ConfigError(f"malicious = {self.malicious}: list at least one client, and each once")
        if len(set(clients)) != len(clients) or not set(self.malicious) <= set(clients):
            raise ConfigError("every client, the malicious among them, must be in exactly one shard of the view")
        d = int(self.model.shape[0])
        for what, rows, wanted in (("own", self.own, self.m), ("benign", self.benign, self.n - self.m)):
            if rows is not None and tuple(rows.shape) != (wanted, d):
                raise ConfigError(f"the view's {what} updates have shape {tuple(rows.shape)}; expected {(wanted, d)}")
        if sum(self.tensors) != d:
            raise ConfigError(f"tensors = {list(self.tensors)} must add up to {d} coordinates")

    @property
    def n(self) -> int:
        """The number of clients."""
        return sum(map(len, self.shards))

    @property
    def m(self) -> int:
        """The number of malicious clients."""
        return len(self.malicious)

    @property
    def is_finite(self) -> bool:
        """Whether no update overflows or has a value that is not a number."""
        seen = (as_matrix(rows)[0] for rows in (self.own, self.benign) if rows is not None)
        with np.errstate(all="ignore"):
            return all(bool(namespace(rows).isfinite(rows.sum(0)).all()) for rows in seen)

    def weights_of(self, clients: Sequence[ClientId]) -> npt.NDArray[np.float64]:
        """Return how much each of these clients counts."""
        return np.array([1 if self.weights is None else self.weights[client] for client in clients], np.float64)

    @cached_property
    def honest(self) -> tuple[ClientId, ...]:
        """The other clients, in ascending order."""
        return tuple(sorted({client for members in self.shards for client in members} - set(self.malicious)))
