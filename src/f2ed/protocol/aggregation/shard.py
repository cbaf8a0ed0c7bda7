"""One shard under way: requests out, replies in, in the end a mean and the record of how it came about."""

from collections.abc import Generator

import numpy as np
import numpy.typing as npt

from f2ed.core.errors import PeerError
from f2ed.protocol.aggregation.audit import ShardAudit
from f2ed.protocol.aggregation.task import opening_cost
from f2ed.protocol.quantization.encoding import Encoding, decode_mean
from f2ed.protocol.secagg import Replies, Requests, ShardSum, Terms

__all__ = ["Means", "Shard"]

Means = npt.NDArray[np.float32]


class Shard:
    """One shard under way: its server, what it waits for, and in the end its row of the means."""

    def __init__(
        self, terms: Terms, server: Generator[Requests, Replies, ShardSum], encoding: Encoding, row: Means
    ) -> None:
        self.terms = terms
        self.outcome: ShardSum | None = None
        self._server = server
        self._encoding = encoding
        self._row = row
        self._reason: str | None = None
        self._clipped = (0, 0)
        self._bytes_up = self._bytes_down = 0

    def start(self) -> Requests:
        """Return the first requests."""
        return self._sent(next(self._server))

    def send(self, replies: Replies) -> Requests:
        """Hand over replies, or none when time is up; return the next requests once this step is over."""
        self._bytes_up += sum(map(len, replies.values()))
        try:
            return self._sent(self._server.send(replies))
        except StopIteration as stop:
            self._finish(stop.value)
            return {}

    def audit(self) -> ShardAudit:
        """Say what happened."""
        outcome = self.outcome
        return ShardAudit(
            shard=self.terms.shard,
            mode=self.terms.mode,
            members=self.terms.members,
            survivors=outcome.survivors if outcome else (),
            reason=self._reason,
            dropped=dict(outcome.dropped) if outcome else {},
            clipped=self._clipped[0],
            shortened=self._clipped[1],
            bytes_up=self._bytes_up,
            bytes_down=self._bytes_down,
            privacy_cost=self._privacy_cost(len(outcome.survivors) if outcome else 0),
        )

    def _privacy_cost(self, survivors: int) -> float | None:
        """Return what this costs a survivor; a sum that stayed closed costs nothing."""
        if not survivors:
            return 0.0 if self.terms.noise else None
        return opening_cost(self.terms, coordinates=len(self._row), survivors=survivors)

    def _sent(self, requests: Requests) -> Requests:
        self._bytes_down += sum(map(len, requests.values()))
        return requests

    def _finish(self, outcome: ShardSum) -> None:
        """Decode at once, so that the total of a shard lives no longer than its round."""
        self.outcome, self._reason = outcome._replace(total=None), outcome.reason
        if outcome.total is None:
            return
        weights = sum(self.terms.weight(client) for client in outcome.survivors)
        try:
            decoded = decode_mean(
                outcome.total,
                self._encoding,
                clients=len(self.terms.members),
                survivors=len(outcome.survivors),
                weight=weights / self.terms.weight_cap,
                out=self._row,
            )
        except PeerError as error:
            self._reason = str(error)
        else:
            self._clipped = decoded.clipped
