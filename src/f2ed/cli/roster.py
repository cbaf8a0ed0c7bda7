"""`f2ed roster`: the clients, their keys and how they are sharded; created and signed outside the server."""

import os
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import msgspec
from cyclopts import App, Parameter

from f2ed.cli.forget import forget
from f2ed.cli.roster_helpers import countersign, helper, helper_settings
from f2ed.cli.roster_keys import encrypt, encryption, key
from f2ed.cli.roster_sign import chain_secret, print_lines, sign
from f2ed.core.errors import ConfigError, PeerError
from f2ed.deployment.keyfiles import add_chain, read_chain, read_public, write_pair
from f2ed.deployment.passphrase import SOURCES
from f2ed.deployment.pin import accept_weaker, reset_day
from f2ed.deployment.roster import (
    Draw,
    Entry,
    Gone,
    Roster,
    check_head,
    check_signature,
    read_roster,
    revised,
    write_roster,
)
from f2ed.deployment.roster.groups import check_groups
from f2ed.deployment.roster.helpers import check_countersigned, helper_lines
from f2ed.deployment.rule_text import rule_lines
from f2ed.protocol.sharding import chain_head

__all__ = ["roster"]

roster = App(
    name="roster",
    help="Create, sign and verify the list of clients that nodes trust.",
)


@roster.command
def new(
    path: Annotated[Path, Parameter(help="The roster's file.")],
    *,
    name: Annotated[str, Parameter(help="Name of the federation.")],
    authority: Annotated[Path, Parameter(help="Where the authority's private key goes; keep it off the server.")],
    passphrase: Annotated[str, Parameter(help=f"Encrypt that key under a passphrase from: {SOURCES}.")] = "",
) -> None:
    """Create an empty roster and the key that will sign it.

    Example: f2ed roster new roster.json --name clinics --authority authority.key
    """
    if path.exists():
        raise ConfigError(f"{path} exists already; move it away, or choose another name")
    public = write_pair(authority, os.urandom(32), encryption(authority, passphrase))
    head = chain_head(chain_secret(authority, Draw(), passphrase))
    add_chain(public, head)
    write_roster(path, Roster(name=name, authority=read_public(public), draw=Draw(head=head)))
    print_lines(
        f"Created {path}. Give {public} to every node before it creates its own key: it verifies that a roster is "
        "yours, and that you did not choose the draw when you knew the keys.",
        f"{authority.with_suffix('.chain')} is the secret that all shards are drawn from: it stays with {authority}.",
    )


@roster.command
def add(
    path: Annotated[Path, Parameter(help="The roster's file.")],
    keys: Annotated[list[Path], Parameter(help="Public keys of clients; a file's name becomes the client's.")],
) -> None:
    """Add clients by their public keys. The roster must be signed again afterwards.

    The id, name and key of a client that left are never used again.

    Example: f2ed roster add roster.json hospital_a.pub hospital_b.pub
    """
    draft = read_roster(path, upgrade=True)
    following = max((*draft.keys, *(left.id for left in draft.gone)), default=-1) + 1
    more = tuple(Entry(following + place, each.stem, read_public(each)) for place, each in enumerate(keys))
    _rewrite(path, draft, (*draft.clients, *more))
    print_lines(f"{len(draft.clients) + len(more)} clients are on {path}; now sign it: f2ed roster sign")


@roster.command
def remove(
    path: Annotated[Path, Parameter(help="The roster's file.")],
    names: Annotated[list[str], Parameter(help="Names of clients.")],
) -> None:
    """Remove clients. The roster must be signed again afterwards, and remembers who left.

    Example: f2ed roster remove roster.json hospital_b
    """
    draft = read_roster(path, upgrade=True)
    if unknown := set(names) - {entry.name for entry in draft.clients}:
        raise ConfigError(f"no client on {path} is called {min(unknown)}; f2ed roster verify lists all clients")
    left = tuple(entry for entry in draft.clients if entry.name not in names)
    # A client that no signed roster had may come back.
    gone = [Gone(entry.id, entry.name, entry.key) for entry in draft.clients if entry.name in names and entry.since > 0]
    _rewrite(path, draft, left, gone)
    print_lines(f"{len(left)} clients remain on {path}; now sign it: f2ed roster sign")


@roster.command
def server(
    path: Annotated[Path, Parameter(help="The roster's file.")],
    key: Annotated[Path, Parameter(help="The public key that f2ed log key made on the server.")],
) -> None:
    """Name the key with which the server signs its log. The roster must be signed again afterwards.

    Example: f2ed roster server roster.json server.pub
    """
    write_roster(path, revised(read_roster(path, upgrade=True), server=read_public(key)))
    print_lines(f"{path} names {key} as the key of the server's log; now sign it: f2ed roster sign")


@roster.command
def accept(
    digest: Annotated[str, Parameter(help="The roster's digest, as the node and f2ed roster verify print it.")],
    *,
    state: Annotated[
        Path, Parameter(help="The folder of this node's state: f2ed-state, or NAME.state beside its key.")
    ],
) -> None:
    """Agree, at the site of a node, to a serial of the roster whose settings are weaker than before.

    Example: f2ed roster accept 4be1…c07d --state hospital_a.state
    """
    try:
        found = bytes.fromhex(digest)
    except ValueError:
        found = b""
    if len(found) != 32:
        raise ConfigError(f"{digest} is no digest of a roster; copy all 64 digits that the node prints")
    accept_weaker(state, found)
    print_lines(f"The node whose state is in {state} follows the roster {digest} from now on.")


@roster.command(name="reset-day")
def reset(
    *,
    state: Annotated[
        Path, Parameter(help="The folder of this node's state: f2ed-state, or NAME.state beside its key.")
    ],
) -> None:
    """Let a node, whose clock was ahead for a while, go on by its clock of today.

    A node never goes back to an earlier day by itself: an expired roster would be valid again. Look at the clock first.

    Example: f2ed roster reset-day --state hospital_a.state
    """
    day = datetime.now(UTC).date().isoformat()
    if not state.is_dir():
        raise ConfigError(f"{state} is not a folder; name the one that holds this node's state")
    names = reset_day(state, day=day)
    print_lines(
        f"The node takes {day} for the latest day that it has seen, in {', '.join(names)}."
        if names
        else f"Nothing to do: this node has seen no day after {day}."
    )


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
        check_head(found, read_chain(authority))
        check_groups(found)
        check_countersigned(found)
    except PeerError as error:
        raise ConfigError(str(error)) from None
    if json:
        sys.stdout.write(msgspec.json.encode(found).decode() + "\n")
        return
    print_lines(
        f"{found.name}, serial {found.serial}: {len(found.clients)} clients in {found.shards} shards, "
        f"min_crowd {found.min_crowd}, mode {found.mode}, at most {found.colluders} colluders in a shard, new keys "
        f"every {found.key_rounds} rounds. The signature is valid.",
        *([f"Clients that wait for a group: {', '.join(map(str, found.waiting))}."] if found.waiting else []),
        f"Nodes follow it until {found.expires or 'another is signed'}. Its digest is {found.digest.hex()}.",
        *(f"ACCEPTED RISK: {risk}" for risk in found.accepted),
        *(f"{entry.id:6d}  {entry.name}  {entry.key.hex()}" for entry in found.clients),
        *rule_lines(found.training),
        *helper_lines(found),
        *(f"   app  {app.name}  {app.sha256.hex()}" for app in found.apps),
    )


def _rewrite(path: Path, draft: Roster, clients: tuple[Entry, ...], gone: Sequence[Gone] = ()) -> None:
    """Write a draft with other clients; its settings stay for the next signing."""
    write_roster(path, revised(draft, clients=clients, gone=(*draft.gone, *gone)))


roster.command(key)
roster.command(encrypt)
roster.command(sign)
roster.command(forget)
roster.command(helper)
roster.command(helper_settings)
roster.command(countersign)
