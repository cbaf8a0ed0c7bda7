"""Early stopping: a run ends once the model has not become better for some rounds."""

from math import isfinite
from typing import Annotated, Literal, NamedTuple, final

import msgspec

from f2ed.core.settings import Settings
from f2ed.learning import Score

__all__ = ["NOT_STARTED", "EarlyStopping", "Patience"]


class Patience(NamedTuple):
    """The best value so far, its round, and why the run ended, if it did."""

    best: float | None = None
    round: int = -1
    ended: str = ""


NOT_STARTED = Patience()


@final
class EarlyStopping(Settings, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """End the run after `patience` rounds in which the metric on the test set was not better by more than `min_delta`.

    A round that was skipped counts, and so does one in which the metric is not a finite number.
    """

    patience: Annotated[int, msgspec.Meta(ge=1)]
    metric: Literal["accuracy", "loss"] = "accuracy"
    min_delta: Annotated[float, msgspec.Meta(ge=0)] = 0.0

    def __call__(self, before: Patience, score: Score, round_: int) -> Patience:
        """Return the state after a round, which counts from 0."""
        value = score.accuracy if self.metric == "accuracy" else score.loss
        if value is not None and isfinite(value) and self._better(value, before.best):
            return Patience(value, round_)
        waited = round_ - before.round
        if waited < self.patience:
            return before
        best = "" if before.best is None else f"; the best was {before.best:.4g}, in round {before.round}"
        return before._replace(ended=f"the {self.metric} did not improve for {waited} rounds{best}")

    def _better(self, value: float, best: float | None) -> bool:
        if best is None:
            return True
        return value > best + self.min_delta if self.metric == "accuracy" else value < best - self.min_delta
