"""`f2ed roster`: the clients, their keys and how they are sharded; created and signed outside the server."""

import os
import sys
from pathlib import Path
from typing import Annotated

import msgspec
from cyclopts import App, Parameter

from f2ed.core.errors import ConfigError, PeerError
from f2ed.deployment.keyfiles import read_private, read_public, write_pair
from f2ed.deployment.roster import Entry, Roster, check_signature, read_roster, signed, write_roster
from f2ed.guarantees import plan_shards
from f2ed.protocol.sharding import Batches, EveryKRounds, Fixed, Schedule

__all__ = ["roster"]

roster = App(
    name="roster",
    help="Create, sign and verify the list of clients that nodes trust.",
)


@roster.command
def key(path: Annotated[Path, Parameter(help="Where the private key goes, such as hospital_a.key.")]) -> None:
    """Create a client's identity key. Run this on the node: the private key never leaves it.

    Example: f2ed roster key hospital_a.key
    """
    public = write_pair(path, os.urandom(32))
    _print(
        f"The private key is {path}: it stays on this node.", f"Give {public} to the authority that keeps the roster."
    )


@roster.command
def new(
    path: Annotated[Path, Parameter(help="The roster's file.")],
    *,
    name: Annotated[str, Parameter(help="Name of the federation.")],
    authority: Annotated[Path, Parameter(help="Where the authority's private key goes; keep it off the server.")],
) -> None:
    """Create an empty roster and the key that will sign it.

    Example: f2ed roster new roster.json --name clinics --authority authority.key
    """
    if path.exists():
        raise ConfigError(f"{path} exists already; move it away, or choose another name")
    public = write_pair(authority, os.urandom(32))
    write_roster(path, Roster(name=name, authority=read_public(public)))
    _print(f"Created {path}. Give {public} to every node: it verifies that a roster is yours.")


@roster.command
def add(
    path: Annotated[Path, Parameter(help="The roster's file.")],
    keys: Annotated[list[Path], Parameter(help="Public keys of clients; a file's name becomes the client's.")],
) -> None:
    """Add clients by their public keys. The roster must be signed again afterwards.

    Example: f2ed roster add roster.json hospital_a.pub hospital_b.pub
    """
    draft = read_roster(path)
    following = max((entry.id for entry in draft.clients), default=-1) + 1
    more = tuple(Entry(following + place, each.stem, read_public(each)) for place, each in enumerate(keys))
    _rewrite(path, draft, (*draft.clients, *more))
    _print(f"{len(draft.clients) + len(more)} clients are on {path}; now sign it: f2ed roster sign")


@roster.command
def remove(
    path: Annotated[Path, Parameter(help="The roster's file.")],
    names: Annotated[list[str], Parameter(help="Names of clients.")],
) -> None:
    """Remove clients. The roster must be signed again afterwards.

    Example: f2ed roster remove roster.json hospital_b
    """
    draft = read_roster(path)
    if unknown := set(names) - {entry.name for entry in draft.clients}:
        raise ConfigError(f"no client on {path} is called {min(unknown)}; f2ed roster verify lists all clients")
    left = tuple(entry for entry in draft.clients if entry.name not in names)
    _rewrite(path, draft, left)
    _print(f"{len(left)} clients remain on {path}; now sign it: f2ed roster sign")


@roster.command
def sign(
    path: Annotated[Path, Parameter(help="The roster's file.")],
    *,
    authority: Annotated[Path, Parameter(help="The authority's private key.")],
    shards: Annotated[int | None, Parameter(help="Number of shards; by default the planner's.")] = None,
    min_crowd: Annotated[int, Parameter(help="Minimum number of clients in any opened sum.")] = 4,
    malicious: Annotated[int, Parameter(help="Number of malicious clients to assume.")] = 0,
    every: Annotated[int | None, Parameter(help="Reshard every N rounds; by default never.")] = None,
    batches: Annotated[int | None, Parameter(help="Group size: these clients always share a shard.")] = None,
    accept_no_guarantee: Annotated[
        bool, Parameter(negative="", help="Sign although the planner finds no guarantee.")
    ] = False,
) -> None:
    """Close the list, draw the public seed and sign: from now on nobody can choose who shares a shard.

    Example: f2ed roster sign roster.json --authority authority.key --shards 2 --min-crowd 4
    """
    draft = read_roster(path)
    advice = plan_shards(clients=max(1, len(draft.clients)), malicious=malicious, min_crowd=min_crowd, shards=shards)
    number = shards if shards is not None else advice.recommended
    if number is None or not (advice.ok or accept_no_guarantee):
        fix = "; or ".join(change.text for change in advice.changes)
        last = ", or pass --accept-no-guarantee" if number is not None else ""
        raise ConfigError(f"{advice.verdict} {' '.join(advice.why)} You may {fix}{last}.")
    schedule: Schedule = Fixed() if every is None else EveryKRounds(every)
    if batches is not None:
        schedule = Batches(batches, every or 1)
    made = signed(
        draft, read_private(authority), shards=number, min_crowd=min_crowd, schedule=schedule, seed=os.urandom(32)
    )
    write_roster(path, made)
    _print(advice.verdict, f"Signed {path}, serial {made.serial}. Give this file to every node and to the server.")


@roster.command
def verify(
    path: Annotated[Path, Parameter(help="The roster's file.")],
    *,
    authority: Annotated[
        Path, Parameter(help="The authority's public key, obtained from a source other than the server.")
    ],
    json: Annotated[bool, Parameter(negative="", help="Print JSON for a program to read.")] = False,
) -> None:
    """Verify the signature and list the clients. The exit status is 1 if the signature is invalid.

    Example: f2ed roster verify roster.json --authority authority.pub
    """
    found = read_roster(path)
    try:
        check_signature(found, read_public(authority))
    except PeerError as error:
        raise ConfigError(str(error)) from None
    if json:
        sys.stdout.write(msgspec.json.encode(found).decode() + "\n")
        return
    _print(
        f"{found.name}, serial {found.serial}: {len(found.clients)} clients in {found.shards} shards, "
        f"min_crowd {found.min_crowd}. The signature is valid.",
        *(f"{entry.id:6d}  {entry.name}  {entry.key.hex()}" for entry in found.clients),
    )


def _rewrite(path: Path, draft: Roster, clients: tuple[Entry, ...]) -> None:
    try:
        changed = msgspec.structs.replace(draft, clients=clients, shards=0, seed=b"", signature=b"")
    except ValueError as error:
        raise ConfigError(str(error)) from None
    write_roster(path, changed)


def _print(*lines: str) -> None:
    sys.stdout.write("\n".join(lines) + "\n")
