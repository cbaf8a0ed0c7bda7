"""A node's own budget of differential privacy, which no server can raise.

    flower-supernode … --node-config '… f2ed-dp-epsilon=8.0 f2ed-delta=1e-5 f2ed-ledger="/var/lib/f2ed/spent.json"'

The cost of an update is recorded before it leaves, for all jobs in one file, and as if the smallest sum that its terms
allow were opened, even if none ever is. An update that the budget does not cover is not sent.
"""

from pathlib import Path
from typing import Annotated, final

import msgspec

from f2ed.core.errors import ConfigError, Refusal
from f2ed.core.files import locked
from f2ed.protocol.dp.accountant import dp_epsilon

__all__ = ["Budget"]


@final
class _Spent(msgspec.Struct, frozen=True):
    rho: Annotated[float, msgspec.Meta(ge=0)]
    """zCDP, added up over all updates that left."""


@final
class Budget(msgspec.Struct, frozen=True):
    """The largest epsilon at a delta, and the file that records what was spent of it."""

    path: Path
    dp_epsilon: float
    delta: float

    def check(self, cost: float | None) -> None:
        """Refuse a cost, in zCDP rho, that the budget does not cover; None means that there is no bound."""
        self._after(cost)

    def pay(self, cost: float | None) -> float:
        """Record the cost, or refuse it; return the total epsilon."""
        with locked(self.path, remedy="name another ledger with f2ed-ledger in the node config") as lock:
            rho, total = self._after(cost)
            lock.write(self.path, msgspec.json.encode(_Spent(rho)))
        return total

    def _after(self, cost: float | None) -> tuple[float, float]:
        if cost is None:
            raise Refusal(
                f"the terms state no noise; this node has a budget of epsilon {self.dp_epsilon:g} and sends nothing "
                "without noise"
            )
        rho = self._spent() + cost
        total = dp_epsilon(rho, self.delta)
        if not total <= self.dp_epsilon:
            raise Refusal(
                f"with this update the node's epsilon would be {total:.3g} at delta {self.delta:g}; its budget is "
                f"{self.dp_epsilon:g}"
            )
        return rho, total

    def _spent(self) -> float:
        try:
            return msgspec.json.decode(self.path.read_bytes(), type=_Spent).rho
        except FileNotFoundError:
            return 0.0
        except (OSError, msgspec.DecodeError) as error:
            raise ConfigError(
                f"the ledger of this node's privacy {self.path} cannot be read ({error}); restore it, or name another "
                "with f2ed-ledger, and a smaller f2ed-dp-epsilon"
            ) from None
