"""Dropout-tolerant secure aggregation (Bonawitz et al., CCS 2017), with the checks of its malicious variant.

The keys are fresh in every round, and the survivors unmask the sum with shares of everyone's secrets.
"""

from typing import ClassVar, Literal, final

from f2ed.protocol.secagg.schemes.base import Quorum, Scheme, ShardRound, Summation
from f2ed.protocol.secagg.schemes.dropout_tolerant.client import STEPS
from f2ed.protocol.secagg.schemes.dropout_tolerant.phases import PHASES
from f2ed.protocol.secagg.schemes.dropout_tolerant.server import DropoutTolerantServer
from f2ed.protocol.secagg.terms import MIN_CROWD

__all__ = ["DropoutTolerant"]


@final
class DropoutTolerant(Scheme):
    """Opens the sum of the survivors, while they are enough."""

    mode: ClassVar[Literal["dropout-tolerant"]] = "dropout-tolerant"
    tolerates_dropouts: ClassVar[bool] = True
    several_steps: ClassVar[bool] = True
    steps = STEPS
    phases = PHASES

    def quorum(self, members: int, colluders: int = 0) -> Quorum:
        """Return a majority that two disjoint groups cannot both have, even if the colluders join both."""
        threshold = (members + colluders) // 2 + 1
        return Quorum(threshold, max(threshold, MIN_CROWD, colluders + 2))

    def add(self, shard: ShardRound) -> Summation:
        """Lead the round step by step."""
        return DropoutTolerantServer(shard).run()
