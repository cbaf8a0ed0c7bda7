"""An adversary that searches: for a rule, the attack that hurts most within a budget of runs."""

from f2ed.experiments.search.objective import OBJECTIVES, Objective, harm
from f2ed.experiments.search.search import Plan, Search, Status
from f2ed.experiments.search.space import kinds_for
from f2ed.experiments.search.summary import Found, table
from f2ed.experiments.search.target import Target, targets_of

__all__ = [
    "OBJECTIVES",
    "Found",
    "Objective",
    "Plan",
    "Search",
    "Status",
    "Target",
    "harm",
    "kinds_for",
    "table",
    "targets_of",
]
