"""A declared part of a model travels and is averaged, such as LoRA's adapters; the rest is as it was at the start.

Nodes are given these arrays alone, and put them into a base model of their own. What the server's own functions see,
and what a run returns, is the whole model.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import NamedTuple

from flwr.app import ArrayRecord, MetricRecord

from f2ed.core.errors import ConfigError
from f2ed.flower.evaluation import EvaluateFn
from f2ed.flower.hooks import FinishedRound, OnRound
from f2ed.flower.run import RunSettings

__all__ = ["Subset", "declared"]


class Subset(NamedTuple):
    """Which arrays of a model travel."""

    initial: ArrayRecord
    """The whole model, as it was at the start."""
    travels: tuple[str, ...]

    def part(self, arrays: ArrayRecord) -> ArrayRecord:
        """Return the arrays that travel, of a model that has at least these."""
        if missing := [name for name in self.travels if name not in arrays]:
            raise ConfigError(f"the model lacks {missing[0]!r}, which trained_arrays declares; return all arrays")
        return ArrayRecord({name: arrays[name] for name in self.travels})

    def whole(self, part: ArrayRecord) -> ArrayRecord:
        """Return the whole model, with these arrays in their places."""
        return ArrayRecord({name: part.get(name, array) for name, array in self.initial.items()})

    def settings(self, run: RunSettings) -> RunSettings:
        """Return settings whose functions see the whole model: the same ones where all of it travels."""
        if len(self.travels) == len(self.initial):
            return run
        root = run.root_fn
        return replace(
            run,
            on_round=[self._hook(each) for each in run.on_round],
            root_fn=None if root is None else lambda round_, part: self.part(root(round_, self.whole(part))),
        )

    def evaluating(self, evaluate_fn: EvaluateFn | None) -> EvaluateFn | None:
        """Return a function that evaluates the whole model."""
        if evaluate_fn is None:
            return None

        def evaluate(round_: int, part: ArrayRecord) -> MetricRecord | None:
            return evaluate_fn(round_, self.whole(part))

        return evaluate

    def _hook(self, hook: OnRound) -> Callable[[FinishedRound], None]:
        return lambda finished: hook(finished._replace(arrays=self.whole(finished.arrays)))


def declared(arrays: ArrayRecord, patterns: Sequence[str] | None) -> Subset:
    """Return the arrays whose names fit one of the patterns, in which * stands for any text; all without patterns."""
    if patterns is None:
        return Subset(arrays, tuple(arrays))
    if isinstance(patterns, str):
        raise ConfigError(f"trained_arrays is the text {patterns!r}; give a list of patterns, as [{patterns!r}]")
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in arrays):
            some = ", ".join(list(arrays)[:3])
            raise ConfigError(
                f"trained_arrays has {pattern!r}, which fits no array of the model ({some} …); correct it"
            )
    found = tuple(name for name in arrays if any(fnmatchcase(name, pattern) for pattern in patterns))
    if not found:
        raise ConfigError("trained_arrays is empty, so nothing would be learned; name some arrays, or leave it out")
    return Subset(arrays, found)
