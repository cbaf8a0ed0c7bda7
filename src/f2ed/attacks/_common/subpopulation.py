"""The base of backdoors without a trigger: real images of one class that have something in common get a wrong label."""

from abc import abstractmethod
from typing import Annotated

import msgspec
import numpy as np
import numpy.typing as npt

from f2ed.attacks._common.backdoor import Label, Poisoning, check_label
from f2ed.attacks._common.goal import EvaluationData, Examples, Goal
from f2ed.attacks._common.training import MaliciousClients
from f2ed.attacks._common.triggers import copied
from f2ed.core.arrays import Array, namespace, to_numpy
from f2ed.core.errors import ConfigError, SettingError

__all__ = ["Scores", "Subpopulation"]

Scores = npt.NDArray[np.float64]


class Subpopulation(Poisoning, frozen=True, kw_only=True):
    """Teach the model to call one group of real images of the class `source` by the label `target`.

    The group is the share `tail` of the test images of that class with the highest scores. The attacker brings every
    second of them along for training, and success is measured on the others. No honest client has them.
    """

    source: Label = 7
    target: Label = 1
    tail: Annotated[float, msgspec.Meta(gt=0.0, le=1.0)] = 0.1

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.source == self.target:
            raise SettingError(f"source and target are both {self.source}; state two classes")

    @abstractmethod
    def scores(self, images: npt.NDArray[np.float64]) -> Scores:
        """Score the images of one class, flat [k, pixels]; the highest scores are the group."""

    def goal(self, evaluation: EvaluationData) -> Goal:
        """Choose the group, and ask for the target label on half of it."""
        test = evaluation.test
        check_label("source", self.source, evaluation.classes)
        check_label("target", self.target, evaluation.classes)
        mine = np.flatnonzero(np.asarray(to_numpy(test.labels)) == self.source)
        flat = np.asarray(to_numpy(test.images[mine]), np.float64).reshape(len(mine), -1)
        group = mine[np.argsort(-self.scores(flat), kind="stable")[: max(2, round(self.tail * len(mine)))]]
        lesson, shown = group[::2], group[1::2] if len(group) > 1 else group
        return Goal(
            test.images[shown],
            _constant(test.labels[shown], self.target),
            test.labels[shown],
            Examples(test.images[lesson], _constant(test.labels[lesson], self.target)),
        )

    def poison(self, clients: MaliciousClients) -> list[Examples]:
        """Replace a share of each client's images by images of the group."""
        if clients.goal is None or clients.goal.lesson is None or not len(clients.goal.lesson.labels):
            raise ConfigError(f"there are no test images of class {self.source}; state a source that the data have")
        lesson = clients.goal.lesson
        return [_replaced(data, lesson, self.share, clients.rng) for data in clients.data]


def _replaced(data: Examples, lesson: Examples, share: float, rng: np.random.Generator) -> Examples:
    chosen = np.sort(rng.permutation(len(data.labels))[: max(1, round(share * len(data.labels)))])
    drawn = rng.integers(0, len(lesson.labels), len(chosen))
    images, labels = copied(data.images), copied(data.labels)
    images[chosen] = lesson.images[drawn]
    labels[chosen] = lesson.labels[drawn]
    return Examples(images, labels)


def _constant(labels: Array, value: int) -> Array:
    return namespace(labels).full_like(labels, value)
