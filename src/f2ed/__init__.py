"""Federated learning protected in both directions (F²ed-Learning, Wang et al. 2021)."""

__version__ = "0.1.0.dev0"
