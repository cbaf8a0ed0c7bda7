"""The buffers of a simulated model (BatchNorm's statistics), by the rules that a deployment's roster signs."""

from collections.abc import Iterable

import torch
from torch import Tensor

from f2ed.core.errors import ConfigError
from f2ed.learning.vector import Layout
from f2ed.protocol.aggregation import Buffers, plan_update
from f2ed.simulation.config import Experiment

__all__ = ["ModelBuffers"]


class ModelBuffers:
    """Which part of a model's vector travels, and where the rest stays. Buffers come last in the vector."""

    def __init__(self, experiment: Experiment, layout: Layout) -> None:
        rules = experiment.buffers or Buffers()
        self.plan = plan_update(
            list(zip(layout.names, layout.sizes, strict=True)),
            rules,
            clip_value=experiment.clip_value,
            are_buffers=[place >= layout.parameters for place in range(len(layout.sizes))],
        )
        if experiment.helpers is not None and (self.plan.scales or self.plan.trained < self.plan.coordinates):
            raise ConfigError(
                "buffers: with helpers all coordinates are judged together and clipped alike; choose keep or local for "
                "a model with running statistics, and no clips of single arrays"
            )
        self._local = rules.policy == "local" and layout.dimension > layout.trained
        self._clients = experiment.clients

    def first(self, model: Tensor) -> Tensor | None:
        """Return every client's own buffers before the first round, [n, b]; None where none stay with the clients."""
        return model[self.plan.trained :].repeat(self._clients, 1) if self._local else None

    def sent(self, updates: Tensor) -> Tensor:
        """Return the part of the updates that travels."""
        return updates[:, : self.plan.coordinates]

    def kept(self, buffers: Tensor | None, updates: Tensor, clients: Iterable[int]) -> Tensor | None:
        """Return every client's own buffers after a round in which these clients trained."""
        if buffers is None:
            return None
        mine = buffers.clone()
        mine[list(clients)] += updates[:, self.plan.trained :]
        return mine

    def moved(self, model: Tensor, step: Tensor) -> Tensor:
        """Return the model after a step; what does not travel stays as it is."""
        after = model + step if len(step) == len(model) else torch.cat((model[: len(step)] + step, model[len(step) :]))
        for place, span in self.plan.spans():
            if place in self.plan.variances:
                after[span].clamp_(min=0)
        return after

    def evaluated(self, model: Tensor, buffers: Tensor | None) -> Tensor:
        """Return the model to evaluate: with the mean of the clients' own buffers, where they have any.

        The server of a deployment does not have them; there each node evaluates with its own.
        """
        return model if buffers is None else torch.cat((model[: self.plan.trained], buffers.mean(0)))
