"""What an attacker wants, as one number to maximize: accuracy lost, or the backdoor planted."""

from typing import Literal, get_args

from f2ed.core.errors import ConfigError
from f2ed.records import RoundRecord
from f2ed.records.grading import MARGIN

__all__ = ["MEASURES", "OBJECTIVES", "Objective", "harm"]

Objective = Literal["backdoor", "accuracy"]
OBJECTIVES: tuple[Objective, ...] = get_args(Objective)
MEASURES: dict[Objective, tuple[str, ...]] = {"backdoor": ("planted",), "accuracy": ()}
"""What is measured, where that has changed: trials that were measured in another way cannot be continued."""


def harm(objective: Objective, record: RoundRecord, honest: RoundRecord) -> float:
    """Return how much an attack achieved after a round, given the same round without an attack.

    For accuracy it is the share of right answers lost. For a backdoor it is what it planted, its success minus that of
    the same trigger against a model that was never poisoned, minus what the accuracy lost exceeds the margin by: a
    model that calls every image the target is no backdoor.
    """
    if record.accuracy is None or honest.accuracy is None:
        raise ConfigError("a search compares accuracies, and this task has none; use a loss with classes")
    lost = honest.accuracy - record.accuracy
    if objective == "accuracy":
        return lost
    if record.planted is None:
        raise ConfigError("a search for backdoors needs attacks with a goal, and this one has none; choose others")
    return record.planted - max(0.0, lost - MARGIN)
