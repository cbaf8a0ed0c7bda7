"""The keys and the roster of a trial: made in one place and by one person, which only a trial may do.

With helpers each operator has a folder of its own: `server`, `mixer` and `judge`.
"""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple, get_args

import msgspec

from f2ed.deployment.apps import describe
from f2ed.deployment.certs import node_key
from f2ed.deployment.keyfiles import read_private, read_secret, write_new, write_pair
from f2ed.deployment.roster import (
    App,
    Entry,
    HelperEntry,
    HelperRole,
    Helpers,
    Roster,
    SignedEncoding,
    countersigned,
    revised,
    signed,
    write_roster,
)
from f2ed.deployment.training_rules import ANYTHING
from f2ed.estimators import AnyEstimator, FilterL2
from f2ed.flower.bundle import build
from f2ed.protocol.aggregation import Buffers
from f2ed.protocol.helpers import ROLES, SERVER, HelpersProtocol
from f2ed.protocol.secagg import public_key

__all__ = ["TrialHelpers", "approved", "create_roster", "sign_again"]


class TrialHelpers(NamedTuple):
    """How updates are hidden with helpers in a trial."""

    settings: HelpersProtocol
    rule: AnyEstimator = FilterL2(contamination=0.1)
    clip_norm: float = 10.0


def create_roster(
    folder: Path,
    *,
    clients: int,
    nodes: int,
    keys: Iterable[int],
    shards: int,
    min_crowd: int,
    apps: Iterable[Path],
    helpers: TrialHelpers | None = None,
) -> Roster:
    """Create the keys of so many clients, of whom the first `nodes` are on the roster, and of their connections."""
    authority, chain = os.urandom(32), os.urandom(32)
    write_pair(folder / "authority.key", authority)
    write_new(folder / "authority.chain", chain.hex().encode(), secret=True)
    entries = []
    for client in range(clients):
        seed = os.urandom(32)
        write_pair(folder / "nodes" / f"client_{client}.key", seed)
        entries.append(Entry(client, f"client_{client}", public_key(seed)))
    for number in keys:
        node_key(folder / "nodes" / f"node_{number}")
    draft = Roster(
        name="trial",
        authority=public_key(authority),
        clients=tuple(entries[:nodes]),
        apps=approved(apps),
        buffers=Buffers(),
        training=ANYTHING,  # One person runs all parts, and tries out settings.
    )
    if helpers is not None:
        draft = _with_helpers(draft, folder, helpers)
    roster = _countersigned(signed(draft, authority, shards=shards, min_crowd=min_crowd, seed=chain), folder)
    write_roster(folder / "roster.json", roster)
    return roster


def _with_helpers(draft: Roster, folder: Path, helpers: TrialHelpers) -> Roster:
    """Name three operators; each makes a key in a folder of its own."""
    made = {role: os.urandom(32) for role in ROLES}
    for role, key in made.items():
        (folder / role).mkdir(mode=0o700)
        write_pair(folder / role / f"{role}.key", key)
    parties = tuple(
        HelperEntry(role, f"operator of the {role}", public_key(made[role])) for role in get_args(HelperRole)
    )
    operator = "operator of the server"
    named = Helpers(operator=operator, parties=parties, settings=helpers.settings, rule=helpers.rule)
    return msgspec.structs.replace(
        draft,
        helpers=named,
        server=public_key(made[SERVER]),
        encoding=SignedEncoding(clip_norm=helpers.clip_norm),
        buffers=Buffers(policy="keep"),
    )


def _countersigned(roster: Roster, folder: Path) -> Roster:
    """Let each helper agree to serve, with its own key."""
    for entry in roster.helpers.parties if roster.helpers else ():
        roster = countersigned(roster, read_private(folder / entry.role / f"{entry.role}.key"))
    return roster


def sign_again(folder: Path, before: Roster, apps: Iterable[Path]) -> Roster:
    """Let the authority approve these apps and no others, in the next serial of the roster."""
    roster = signed(
        revised(before, apps=approved(apps)),
        read_private(folder / "authority.key"),
        shards=before.shards,
        min_crowd=before.min_crowd,
        schedule=before.schedule,
        mode=before.mode,
        colluders=before.colluders,
        seed=read_secret(folder / "authority.chain"),
    )
    roster = _countersigned(roster, folder)
    write_roster(folder / "roster.json", roster)
    return roster


def approved(apps: Iterable[Path]) -> tuple[App, ...]:
    """Return what the authority signs for the apps in these folders."""
    return tuple(describe(build(each)).app for each in apps)
