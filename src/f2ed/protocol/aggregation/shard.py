"""One shard of a round: a conversation with its members that ends in a mean and the record of how it was made."""

from collections.abc import Generator

import numpy as np
import numpy.typing as npt

from f2ed.core.errors import PeerError
from f2ed.core.spill import forget
from f2ed.protocol.aggregation.audit import ShardAudit
from f2ed.protocol.aggregation.conversation import Conversation
from f2ed.protocol.aggregation.task import opening_cost
from f2ed.protocol.quantization.encoding import Encoding, decode_mean
from f2ed.protocol.secagg import Replies, Requests, ShardKeys, ShardSum, Terms

__all__ = ["Means", "Shard"]

Means = npt.NDArray[np.float32]


class Shard:
    """One shard of a round; its mean is written into its row of the matrix of means."""

    def __init__(
        self, terms: Terms, server: Generator[Requests, Replies, ShardSum], encoding: Encoding, row: Means
    ) -> None:
        self.terms = terms
        self.result: ShardSum | None = None
        self.conversation = Conversation(server, self._finish)
        self._encoding = encoding
        self._row = row
        self._reason: str | None = None
        self._clipped = (0, 0)

    @property
    def keys(self) -> ShardKeys | None:
        """The keys for the next round; none after a sum that could not be decoded, since masks may not have matched."""
        result = self.result
        return None if result is None or result.reason != self._reason else result.keys

    def audit(self) -> ShardAudit:
        """Return the record of this shard."""
        result = self.result
        return ShardAudit(
            shard=self.terms.shard,
            mode=self.terms.mode,
            members=self.terms.members,
            survivors=result.survivors if result else (),
            reason=self._reason,
            dropped=dict(result.dropped) if result else {},
            blame=result.blame if result else (),
            clipped=self._clipped[0],
            shortened=self._clipped[1],
            bytes_up=self.conversation.bytes_up,
            bytes_down=self.conversation.bytes_down,
            privacy_cost=self._privacy_cost(len(result.survivors) if result else 0),
        )

    def _privacy_cost(self, survivors: int) -> float | None:
        """Return what this round costs a survivor; a sum that stayed closed costs nothing."""
        if not survivors:
            return 0.0 if self.terms.noise else None
        return opening_cost(self.terms, coordinates=len(self._row), survivors=survivors)

    def _finish(self, result: ShardSum) -> None:
        """Decode at once, so that the total of a shard lives no longer than its round."""
        self.result, self._reason = result._replace(total=None), result.reason
        if result.total is None:
            return
        weights = sum(self.terms.weight(client) for client in result.survivors)
        try:
            decoded = decode_mean(
                result.total,
                self._encoding,
                clients=len(self.terms.members),
                survivors=len(result.survivors),
                weight=weights / self.terms.weight_cap,
                out=self._row,
            )
        except PeerError as error:
            self._reason = str(error)
        else:
            self._clipped = decoded.clipped
        forget(self._row)
