"""`f2ed roster forget`: erase the keys that a node holds for a federation."""

import sys
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from f2ed.deployment.identity import key_store
from f2ed.deployment.roster import read_roster

__all__ = ["forget"]


def forget(
    path: Annotated[Path, Parameter(help="The roster's file.")],
    *,
    key: Annotated[Path, Parameter(help="This node's private identity key, which stays.")],
    state: Annotated[Path | None, Parameter(help="f2ed-state of the node's config, if it is set there.")] = None,
    keys: Annotated[Path | None, Parameter(help="f2ed-keys of the node's config, if it is set there.")] = None,
) -> None:
    """Erase the keys that this node agreed on with others, on the node itself; run it when a job has ended.

    A job that goes on loses at most one round: its shards agree on new keys. Round numbers, logs and the privacy budget
    stay as they are.

    Example: f2ed roster forget roster.json --key hospital_a.key
    """
    folder = state or key.with_suffix(".state")
    roster = read_roster(path)
    # Keys may be left in the folder itself from a time when the system had no memory for them.
    stores = [key_store(roster, folder, keys), key_store(roster, folder, folder)]
    erased = sum(store.forget() for store in stores)
    sys.stdout.write(f"Erased the keys of {erased} {'job' if erased == 1 else 'jobs'} of {roster.name}.\n")
