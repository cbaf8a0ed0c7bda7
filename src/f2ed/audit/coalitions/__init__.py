"""What server, mixer and judge could recover in a round with helpers, alone and with clients (extra `train`)."""

from f2ed.audit.coalitions.audit import CoalitionSettings, audit_coalitions
from f2ed.audit.coalitions.cohort import HelpedRound, helped_round
from f2ed.audit.coalitions.findings import CoalitionFinding, Strip, coalition_conclusions, coalition_page

__all__ = [
    "CoalitionFinding",
    "CoalitionSettings",
    "HelpedRound",
    "Strip",
    "audit_coalitions",
    "coalition_conclusions",
    "coalition_page",
    "helped_round",
]
