"""Deployment on Flower: `protect` on the client, `F2ed` on the server, a signed roster between them.

The only part of f2ed that imports `flwr`.
"""

from f2ed.core.errors import MissingExtra

try:
    import flwr  # noqa: F401  to say what to install before anything else fails
except ModuleNotFoundError as missing:
    raise MissingExtra("deployment on Flower", "flower") from missing

from f2ed.deployment.roster import Entry, Roster, read_roster
from f2ed.flower.client_mod import protect
from f2ed.flower.hooks import BestModel, FinishedRound
from f2ed.flower.logs import show_in_flower
from f2ed.flower.strategy import F2ed

__all__ = ["BestModel", "Entry", "F2ed", "FinishedRound", "Roster", "protect", "read_roster"]

show_in_flower()
