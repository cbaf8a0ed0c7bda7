"""The keys and the roster of a trial: made in one place and by one person, which only a trial may do."""

import os
from collections.abc import Iterable
from pathlib import Path

from f2ed.deployment.apps import describe
from f2ed.deployment.certs import node_key
from f2ed.deployment.keyfiles import read_private, read_secret, write_new, write_pair
from f2ed.deployment.roster import App, Entry, Roster, revised, signed, write_roster
from f2ed.deployment.training_rules import ANYTHING
from f2ed.flower.bundle import build
from f2ed.protocol.aggregation import Buffers
from f2ed.protocol.secagg import public_key

__all__ = ["approved", "create_roster", "sign_again"]


def create_roster(
    folder: Path, *, clients: int, nodes: int, keys: Iterable[int], shards: int, min_crowd: int, apps: Iterable[Path]
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
    roster = signed(draft, authority, shards=shards, min_crowd=min_crowd, seed=chain)
    write_roster(folder / "roster.json", roster)
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
    write_roster(folder / "roster.json", roster)
    return roster


def approved(apps: Iterable[Path]) -> tuple[App, ...]:
    """Return what the authority signs for the apps in these folders."""
    return tuple(describe(build(each)).app for each in apps)
