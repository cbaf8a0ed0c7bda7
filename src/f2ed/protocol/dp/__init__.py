"""Differential privacy: noise, its accountant and cost, what each client has spent, and a node's own budget."""

from f2ed.protocol.dp.accountant import dp_epsilon, noise_multiplier_for, rho
from f2ed.protocol.dp.budget import Budget
from f2ed.protocol.dp.cost import NoiseCost, noise_cost, privacy_cost
from f2ed.protocol.dp.ledger import Ledger
from f2ed.protocol.dp.noise import Noise

__all__ = [
    "Budget",
    "Ledger",
    "Noise",
    "NoiseCost",
    "dp_epsilon",
    "noise_cost",
    "noise_multiplier_for",
    "privacy_cost",
    "rho",
]
