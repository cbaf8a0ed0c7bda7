"""Differential privacy: the accountant, what noise costs and buys, and the budget of a node."""
