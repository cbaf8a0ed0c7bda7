"""A whole federation in this process: honest and malicious clients, secure sums, a robust mean (extra `train`)."""

from f2ed.simulation.run import Simulation, simulate
from f2ed.simulation.settings import Experiment, experiment

__all__ = ["Experiment", "Simulation", "experiment", "simulate"]
