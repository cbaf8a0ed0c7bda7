"""The rows that an attack targets: the clients, or the shard means if it is shard-aware."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from f2ed.attacks._common.view import AttackerView, Knowledge
from f2ed.core.arrays import Array, as_matrix, like, namespace, to_numpy
from f2ed.core.errors import ConfigError
from f2ed.estimators import Matrix
from f2ed.protocol.sharding import ClientId

__all__ = ["Scene", "shard_of_each", "survey"]

Vector = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Scene:
    """n rows, m of them the attacker's; arrays are NumPy, or torch on a GPU.

    `honest` are the honest rows. With partial knowledge the attacker's own updates stand in for them, so their number
    may differ from n - m.
    """

    honest: Array
    own: Array
    """The malicious clients' own trained updates: one row for each row they control."""
    before: Array
    """All rows without the attack; with partial knowledge the stand-ins."""
    n: int
    m: int
    view: AttackerView
    weights: tuple[Vector, Vector] | None = None
    """How much each honest row and each of the attacker's rows counts; None where all count the same."""

    @property
    def d(self) -> int:
        """The number of coordinates."""
        return int(self.honest.shape[1])

    @property
    def contamination(self) -> float:
        """The share of the rows that are malicious."""
        return self.m / self.n

    @cached_property
    def mean(self) -> Array:
        """The mean of the honest rows, [d]."""
        return self.honest.mean(0)

    @cached_property
    def spread(self) -> Array:
        """The standard deviation of the honest rows in each coordinate, [d]."""
        away = self.honest - self.mean
        return namespace(away).sqrt(namespace(away).einsum("ij,ij->j", away, away) / len(away))

    @cached_property
    def heading(self) -> Array:
        """The sign of each coordinate of the sum of all rows before the attack, [d]."""
        return namespace(self.before).sign(self.before.mean(0))

    @cached_property
    def squares(self) -> Vector:
        """The squared distances among the honest rows, precise even for close rows."""
        return Matrix(self.honest).squares

    def like(self, numbers: npt.NDArray[Any]) -> Array:
        """Convert an array to the type and device of the rows."""
        return like(self.own, numbers)

    def along(self, direction: Array) -> Vector:
        """Return the inner product of each centered honest row with a vector."""
        return np.asarray(to_numpy((self.honest - self.mean) @ direction), np.float64)


def survey(view: AttackerView, knowledge: Knowledge, *, shard_aware: bool) -> Scene:
    """Return the clients, or the shard means, as seen with full or partial knowledge."""
    view = _on_device(view)
    if knowledge == "full" and view.benign is None:
        raise ConfigError('knowledge = "full", but the view holds no benign updates; provide them, or use "partial"')
    if knowledge == "partial":
        view = replace(view, benign=None)
    return _shard_means(view) if shard_aware else _clients(view)


def shard_of_each(view: AttackerView, clients: Sequence[ClientId]) -> npt.NDArray[np.intp]:
    """Return the index of the shard of each of these clients."""
    where = {client: index for index, members in enumerate(view.shards) for client in members}
    return np.array([where[client] for client in clients], np.intp)


def _on_device(view: AttackerView) -> AttackerView:
    """View CPU tensors as NumPy arrays; leave others on their device."""
    benign = None if view.benign is None else as_matrix(view.benign)[0]
    previous = None if view.previous is None else as_matrix(view.previous[None])[0][0]
    model = as_matrix(view.model[None])[0][0]
    return replace(view, own=as_matrix(view.own)[0], benign=benign, model=model, previous=previous)


def _clients(view: AttackerView) -> Scene:
    if view.benign is None:
        return Scene(view.own, view.own, view.own, view.n, view.m, view, _weights(view, view.malicious))
    before = namespace(view.own).concatenate([view.benign, view.own])
    honest = before[: view.n - view.m]
    return Scene(honest, view.own, before, view.n, view.m, view, _weights(view, view.honest))


def _weights(view: AttackerView, honest: Sequence[ClientId]) -> tuple[Vector, Vector] | None:
    return None if view.weights is None else (view.weights_of(honest), view.weights_of(view.malicious))


def _shard_means(view: AttackerView) -> Scene:
    """Average per shard; if no shard is clean, or none is visible, use stand-ins for the clean ones."""
    p = len(view.shards)
    sizes = np.array([view.weights_of(members).sum() for members in view.shards], np.float64)
    mine, weights = shard_of_each(view, view.malicious), view.weights_of(view.malicious)
    bad, place = np.unique(mine, return_inverse=True)
    attackers = np.bincount(place, weights)
    own_means = like(view.own, (mine == bad[:, None]) * weights / attackers[:, None]) @ view.own
    of_rows = None if view.weights is None else (np.full(len(view.own), sizes.mean()), sizes[bad])
    if view.benign is None:
        center = view.own.mean(0)
        # The standard deviation of a mean of |H| independent updates is smaller by a factor √|H|.
        stand_ins = center + (view.own - center) * float(np.sqrt(p / view.n))
        return Scene(stand_ins, own_means, stand_ins, p, len(bad), view, of_rows)
    theirs = shard_of_each(view, view.honest)
    shards = np.arange(p)[:, None]
    before = like(view.own, (theirs == shards) * view.weights_of(view.honest) / sizes[:, None]) @ view.benign
    before = before + like(view.own, (mine == shards) * weights / sizes[:, None]) @ view.own
    clean = np.setdiff1d(np.arange(p), bad)
    clean = clean if clean.size else np.arange(p)
    of_rows = None if view.weights is None else (sizes[clean], sizes[bad])
    return Scene(before[clean], own_means, before, p, len(bad), view, of_rows)
