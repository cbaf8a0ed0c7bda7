"""Federated learning protected in both directions (F²ed-Learning, Wang et al. 2021)."""

from f2ed.estimators import *  # noqa: F403
from f2ed.estimators import __all__ as _estimators

__version__ = "0.1.0.dev0"
