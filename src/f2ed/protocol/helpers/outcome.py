"""What the server brings to a round, how the round ended, and what the server remembers of it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from f2ed.estimators import Estimate
from f2ed.protocol.helpers.messages import Accusation, Weighed
from f2ed.protocol.helpers.server_rows import RowStore
from f2ed.protocol.helpers.terms import Role, Terms
from f2ed.protocol.sharding import ClientId

__all__ = ["STRUCK", "HelpersOutcome", "Progress", "ServerGuard", "ServerTask", "no_sum", "out_of_range_sum"]

STRUCK = "strike: out for this epoch"
"""Why a client with a strike is not asked."""


@dataclass(frozen=True, kw_only=True)
class ServerTask:
    """What the server brings to a round."""

    terms: Terms
    roster: Mapping[ClientId, bytes]
    model: bytes
    """SHA-256 of what the clients are given."""
    signing_key: bytes
    entropy: bytes
    """32 fresh bytes of `os.urandom`, for its keys of this round."""
    rows: RowStore
    before: tuple[ClientId, ...] | None = None
    """The last survivors of the epoch."""
    struck: tuple[ClientId, ...] = ()
    """Who is out for the epoch."""
    remember: Callable[[tuple[ClientId, ...], tuple[ClientId, ...]], None] | None = None
    """Stores the survivors and strikes of this round, before its sum can be opened; it may refuse."""

    def __repr__(self) -> str:
        """Show no secret."""
        return f"ServerTask(round={self.terms.round}, job={self.terms.job!r}, <secret>)"


@dataclass(frozen=True, kw_only=True, eq=False)
class HelpersOutcome:
    """How a round ended."""

    mean: npt.NDArray[np.float32] | None = None
    clients: tuple[ClientId, ...] = ()
    """Whose updates were compared."""
    kept: tuple[ClientId, ...] = ()
    """Whose updates are in the mean; the survivors of the epoch from now on, even where no mean was opened."""
    struck: tuple[ClientId, ...] = ()
    """Who got a strike in this round."""
    dropped: Mapping[ClientId, str] = field(default_factory=dict)
    accused: Mapping[Role, tuple[Accusation, ...]] = field(default_factory=dict)
    aborted: str | None = None
    """Why there is no mean."""
    eigenvalue: float | None = None
    iterations: int = 0
    stopped: str = ""

    @property
    def compared(self) -> tuple[ClientId, ...]:
        """The clients whose updates the rule weighed: all in the set but those that got a strike."""
        return tuple(client for client in self.clients if client not in self.struck)

    @property
    def absent(self) -> dict[ClientId, str]:
        """The clients that the rule did not weigh, and why, as far as it is known."""
        late = set(self.struck) & set(self.kept)
        found = dict.fromkeys(self.struck, "too long: failed the range tests")
        found |= dict.fromkeys(late, "too long: a coordinate out of range, found after the sum was")
        return dict(sorted((dict(self.dropped) | found).items()))

    @property
    def estimate(self) -> Estimate | None:
        """The judge's estimate, as the server knows it; None without a mean."""
        if self.mean is None:
            return None
        kept = set(self.kept)
        weights = np.array([float(client in kept) for client in self.compared]) / len(kept)
        return Estimate(self.mean, weights, self.eigenvalue, self.iterations, self.stopped)


class ServerGuard(NamedTuple):
    """The server's part of the survivor guard; mixer and judge have their own."""

    epoch: int = -1
    kept: tuple[ClientId, ...] | None = None
    """The last survivors, None if there were none."""
    struck: tuple[ClientId, ...] = ()
    """Who is out for the epoch."""

    def within(self, epoch: int) -> "ServerGuard":
        """Return what counts in an epoch: nothing of an earlier one."""
        return self if self.epoch == epoch else ServerGuard(epoch)

    def after(self, outcome: HelpersOutcome) -> "ServerGuard":
        """Return what counts after a round of this epoch."""
        struck = tuple(sorted({*self.struck, *outcome.struck}))
        return self._replace(kept=outcome.kept or self.kept, struck=struck)


@dataclass
class Progress:
    """What is known about a round so far, for its outcome."""

    dropped: dict[ClientId, str] = field(default_factory=dict)
    accused: dict[Role, tuple[Accusation, ...]] = field(default_factory=dict)
    clients: tuple[ClientId, ...] = ()
    weighed: Weighed | None = None
    blamed: tuple[ClientId, ...] = ()

    def outcome(self, mean: npt.NDArray[np.float32] | None, aborted: str | None) -> HelpersOutcome:
        """Return the outcome with this mean, or without one for this reason."""
        weighed = self.weighed
        return HelpersOutcome(
            mean=mean,
            clients=self.clients,
            kept=() if weighed is None else weighed.kept,
            struck=tuple(sorted({*self.blamed, *(() if weighed is None else weighed.struck)})),
            dropped=dict(sorted(self.dropped.items())),
            accused=self.accused,
            aborted=aborted,
            eigenvalue=None if weighed is None else weighed.eigenvalue,
            iterations=0 if weighed is None else weighed.iterations,
            stopped="" if weighed is None else weighed.stopped,
        )


def no_sum(why: str, struck: Sequence[ClientId]) -> str:
    """Return the reason of a round in which the judge keeps nobody, with the clients that got a strike."""
    return f"the judge keeps nobody: {why}; strikes for clients {', '.join(map(str, struck))}, which are out of range"


def out_of_range_sum(offending: Sequence[int], struck: Sequence[ClientId]) -> str:
    """Return the reason of a round whose sum has coordinates out of range, with the clients that got a strike."""
    return (
        f"a sum with {len(offending)} coordinates out of range, such as {offending[0]}; strikes for clients "
        f"{', '.join(map(str, struck)) or 'none: no single one is out of range'}"
    )
