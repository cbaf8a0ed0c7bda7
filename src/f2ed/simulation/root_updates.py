"""The server's own update on a small data set that it trusts: the root update."""

from typing import NamedTuple

import torch
from torch import Tensor

from f2ed.core.randomness import stream
from f2ed.learning import ClientData, Cohort, TrainingJob
from f2ed.learning.datasets import Samples
from f2ed.simulation.checkpoint import SimulationState
from f2ed.simulation.config import Experiment

__all__ = ["RootUpdates"]


class RootUpdates(NamedTuple):
    """Trains the global model on the root data as a client would, in every round."""

    experiment: Experiment
    cohort: Cohort
    data: ClientData

    @classmethod
    def of(cls, experiment: Experiment, cohort: Cohort, samples: Samples) -> "RootUpdates | None":
        """Draw the root data among all training samples, as FLTrust does; return None where they are not used."""
        if experiment.root is None or not experiment.estimator.needs_root():
            return None
        drawn = stream(experiment.seed, "root").permutation(len(samples.labels))[: experiment.root]
        rows = torch.from_numpy(drawn).to(samples.labels.device)
        return cls(experiment, cohort, ClientData(samples.images, rows, samples.labels[rows]))

    def __call__(self, state: SimulationState) -> Tensor:
        """Return the update of this round, [d]; the server's number is one beyond the clients'."""
        it = self.experiment
        job = TrainingJob(it.clients, self.data, it.training.at(state.round))
        update: Tensor = self.cohort(state.model, [job], seed=it.seed, round_=state.round)[0]
        return update
