"""The first round's training, which runs that differ only in attack or estimator have in common."""

from collections.abc import Hashable

from torch import Tensor

__all__ = ["FirstRoundCache"]

_LIMIT = 1 << 28
"""Bytes to keep: a hundred clients of the paper's network, with and without the malicious ones."""


class FirstRoundCache:
    """The updates of recent first rounds, kept for the next run that starts the same way.

    The most recent ones are kept, as many as fit into `limit` bytes; updates larger than that are never kept.
    """

    def __init__(self, limit: int = _LIMIT) -> None:
        self._limit = limit
        self._kept: dict[Hashable, Tensor] = {}

    def get(self, settings: Hashable) -> Tensor | None:
        """Return a copy of the updates of a run with these settings, if they are kept; this makes them recent."""
        updates = self._kept.pop(settings, None)
        if updates is None:
            return None
        self._kept[settings] = updates
        return updates.clone()

    def put(self, settings: Hashable, updates: Tensor) -> None:
        """Keep a copy of the updates, discarding older ones where there is no room."""
        if updates.nbytes > self._limit:
            return
        while self._kept and sum(kept.nbytes for kept in self._kept.values()) + updates.nbytes > self._limit:
            del self._kept[next(iter(self._kept))]
        self._kept[settings] = updates.clone()
