"""A node's own budget of differential privacy, which no server can raise.

    flower-supernode … --node-config '… f2ed-dp-epsilon=8.0 f2ed-delta=1e-5 f2ed-ledger="/var/lib/f2ed/spent.json"'

Whatever an update may cost is written down before it leaves, for all jobs in one file, and as much as if the smallest
sum that its terms allow were opened, though it may never be. An update that the budget does not cover stays here.
"""

from pathlib import Path
from typing import Annotated, final

import msgspec

from f2ed.core.errors import ConfigError, Refusal
from f2ed.core.files import locked, write_atomic
from f2ed.protocol.dp.accountant import epsilon

__all__ = ["Budget"]


@final
class _Spent(msgspec.Struct, frozen=True):
    rho: Annotated[float, msgspec.Meta(ge=0)]
    """zCDP, added up over all updates that left."""


@final
class Budget(msgspec.Struct, frozen=True):
    """The largest epsilon at a delta, and the file that what was spent of it stands in."""

    path: Path
    epsilon: float
    delta: float

    def check(self, loss: float | None) -> None:
        """Refuse a loss that the budget does not cover; one of None has no bound."""
        self._after(loss)

    def pay(self, loss: float | None) -> float:
        """Write the loss down, or refuse it; return the epsilon that all comes to."""
        with locked(self.path, remedy="name another ledger with f2ed-ledger in the node config"):
            rho, after = self._after(loss)
            write_atomic(self.path, msgspec.json.encode(_Spent(rho)))
        return after

    def _after(self, loss: float | None) -> tuple[float, float]:
        if loss is None:
            raise Refusal(
                f"the terms state no noise; this node has a budget, epsilon {self.epsilon:g}, and sends nothing without"
            )
        rho = self._spent() + loss
        after = epsilon(rho, self.delta)
        if not after <= self.epsilon:
            raise Refusal(
                f"with this update the node's epsilon would be {after:.3g} at delta {self.delta:g}; its budget is "
                f"{self.epsilon:g}"
            )
        return rho, after

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
