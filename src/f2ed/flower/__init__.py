"""Deployment on Flower: `protect` on the client, `F2ed` on the server, a signed roster between them.

The only part of f2ed that imports `flwr`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from f2ed.core.errors import MissingExtra

try:
    import flwr  # noqa: F401  to say what to install before anything else fails
except ModuleNotFoundError as missing:
    raise MissingExtra("deployment on Flower", "flower") from missing

from f2ed.deployment.roster import Entry, Roster, read_roster
from f2ed.flower.client_mod import protect
from f2ed.flower.logs import show_in_flower
from f2ed.flower.precision import load_arrays, to_arrays

if TYPE_CHECKING:
    from f2ed.flower.hooks import BestModel, FinishedRound
    from f2ed.flower.strategy import F2ed

__all__ = [
    "BestModel",
    "Entry",
    "F2ed",
    "FinishedRound",
    "Roster",
    "load_arrays",
    "protect",
    "read_roster",
    "to_arrays",
]

_OF_THE_SERVER = {"BestModel": "hooks", "F2ed": "strategy", "FinishedRound": "hooks"}

show_in_flower()


def __getattr__(name: str) -> Any:
    """Import the server's side on first use: the process of a client's app starts with every message."""
    if name in _OF_THE_SERVER:
        return getattr(import_module(f"f2ed.flower.{_OF_THE_SERVER[name]}"), name)
    raise AttributeError(f"module 'f2ed.flower' has no attribute {name!r}")
