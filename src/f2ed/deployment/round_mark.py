"""The last round that a node answered, over all runs of a federation: rounds only go forward, by bounded steps.

The shards of a round follow from its number. A server that could choose the number would choose the shards, and a new
run would make old rounds valid again.
"""

from pathlib import Path
from typing import Annotated, final

import msgspec

from f2ed.core.errors import Refusal
from f2ed.core.files import StoredValue

__all__ = ["RoundMark"]


@final
class _Mark(msgspec.Struct, frozen=True):
    round: Annotated[int, msgspec.Meta(ge=0)]


@final
class RoundMark(msgspec.Struct, frozen=True):
    """The file that records the last round, and what the roster allows after it."""

    path: Path
    first: int
    """The first round that the roster allows."""
    skip: int
    """The largest step from one round to the next."""

    def last(self) -> int:
        """Return the last round that was answered, or -1."""
        return _number(self._stored.read())

    @property
    def _stored(self) -> StoredValue[_Mark]:
        return StoredValue(
            self.path,
            _Mark,
            "the last round",
            repair='restore it, or write the number of the last round into it, as in {"round": 41}',
            remedy="name another folder with f2ed-state in the node config",
        )

    def check(self, round_: int) -> None:
        """Refuse a round that is not after the last one, or too far after it."""
        self._check(round_, self.last())

    def spend(self, round_: int) -> None:
        """Record a round before its reply leaves, or refuse it."""
        with self._stored.hold() as held:
            self._check(round_, _number(held.before))
            held.write(_Mark(round_))

    def _check(self, round_: int, last: int) -> None:
        if round_ <= last:
            raise Refusal(
                f"round {round_} is not after round {last}, the last one that this node answered in any run; a round "
                "is never begun twice"
            )
        if round_ < self.first:
            raise Refusal(f"round {round_} is before round {self.first}, the first one that the roster was signed for")
        if round_ > (latest := max(last, self.first - 1) + self.skip):
            raise Refusal(
                f"round {round_} is beyond round {latest}, the latest one that the roster allows after round {last}; "
                "if this node was away or is new, the authority signs the roster with a later --first-round"
            )


def _number(mark: _Mark | None) -> int:
    return -1 if mark is None else mark.round
