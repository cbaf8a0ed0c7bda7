"""Data, models, and the training of one client or of many at once (extra `train`)."""

try:
    import torch  # noqa: F401  so that its absence is reported clearly
except ModuleNotFoundError:
    from f2ed.core.errors import MissingExtra

    raise MissingExtra("training", "train") from None

from f2ed.learning.client import ClientData, LocalTrainer, TrainingJob, TrainingKey, split_samples
from f2ed.learning.cohort import Cohort
from f2ed.learning.datasets import AnyDataset, Data, Samples
from f2ed.learning.evaluate import Evaluator, Score
from f2ed.learning.losses import METRICS, AnyLoss, Loss
from f2ed.learning.models import AnyModel
from f2ed.learning.momentum import ClientMomentum, MomentumState
from f2ed.learning.optimizer import Training
from f2ed.learning.partition import AnyPartition, Partition
from f2ed.learning.poisoning import MaliciousTraining, honest_settings
from f2ed.learning.vector import Layout, flatten, layout, load

__all__ = [
    "METRICS",
    "AnyDataset",
    "AnyLoss",
    "AnyModel",
    "AnyPartition",
    "ClientData",
    "ClientMomentum",
    "Cohort",
    "Data",
    "Evaluator",
    "Layout",
    "LocalTrainer",
    "Loss",
    "MaliciousTraining",
    "MomentumState",
    "Partition",
    "Samples",
    "Score",
    "Training",
    "TrainingJob",
    "TrainingKey",
    "flatten",
    "honest_settings",
    "layout",
    "load",
    "split_samples",
]
