"""The training of a first round, which runs that differ in attack or rule alone have in common."""

from collections.abc import Callable, Hashable

from torch import Tensor

__all__ = ["FirstRoundCache"]

_MOST = 1 << 28
"""Bytes to keep: a hundred clients of the paper's network, with and without the malicious ones."""


class FirstRoundCache:
    """What clients came to in the first round of a run, kept for the next run that begins alike.

    Those of the last runs are kept, as many as fit into `most` bytes; what is larger by itself is never kept.
    """

    def __init__(self, most: int = _MOST) -> None:
        self._most = most
        self._kept: dict[Hashable, Tensor] = {}

    def __call__(self, alike: Hashable, train: Callable[[], Tensor]) -> Tensor:
        """Return the first round's updates, trained now unless those of a run that began alike are kept."""
        updates = self._kept.pop(alike, None)
        if updates is None:
            updates = train()
        if updates.nbytes > self._most:
            return updates
        while self._kept and sum(kept.nbytes for kept in self._kept.values()) + updates.nbytes > self._most:
            del self._kept[next(iter(self._kept))]
        self._kept[alike] = updates
        return updates.clone()
