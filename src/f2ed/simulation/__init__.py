"""A whole federation in this process: honest and malicious clients, secure sums, a robust mean (extra `train`)."""

from f2ed.simulation.config import Experiment, experiment
from f2ed.simulation.results import Run
from f2ed.simulation.run import Simulation, simulate

__all__ = ["Experiment", "Run", "Simulation", "experiment", "simulate"]
