"""`f2ed roster`: the clients, their keys and how they are sharded; created and signed outside the server."""

import os
import sys
from collections.abc import Collection, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated

import msgspec
from cyclopts import App, Parameter

from f2ed.cli.app_options import AppOptions, app_lines
from f2ed.cli.forget import forget
from f2ed.cli.roster_settings import changed_encoding, changes, last_day, weighted
from f2ed.cli.training_options import TrainingOptions, training_lines
from f2ed.core.errors import ConfigError, PeerError
from f2ed.deployment.keyfiles import read_private, read_public, read_secret, write_new, write_pair
from f2ed.deployment.pin import accept_weaker
from f2ed.deployment.roster import (
    Agreement,
    Draw,
    Entry,
    Gone,
    Risk,
    Roster,
    check_signature,
    read_roster,
    revised,
    signed,
    write_roster,
)
from f2ed.deployment.roster.groups import check_groups
from f2ed.deployment.roster.leak_text import group_lines
from f2ed.deployment.roster.regroup import DEFAULT_SIZE, Regroup, options
from f2ed.deployment.roster.signing import check_authority
from f2ed.deployment.rule_text import rule_lines
from f2ed.guarantees import ShardPlan, plan_shards
from f2ed.protocol.secagg import ModeChoice
from f2ed.protocol.sharding import Batches, EveryKRounds, Fixed, Schedule, chain_head

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
    head = chain_head(_chain(authority, Draw()))
    write_roster(path, Roster(name=name, authority=read_public(public), draw=Draw(head=head)))
    _print(
        f"Created {path}. Give {public} to every node: it verifies that a roster is yours.",
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
    _print(f"{len(draft.clients) + len(more)} clients are on {path}; now sign it: f2ed roster sign")


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
    _print(f"{len(left)} clients remain on {path}; now sign it: f2ed roster sign")


@roster.command
def server(
    path: Annotated[Path, Parameter(help="The roster's file.")],
    key: Annotated[Path, Parameter(help="The public key that f2ed log key made on the server.")],
) -> None:
    """Name the key with which the server signs its log. The roster must be signed again afterwards.

    Example: f2ed roster server roster.json server.pub
    """
    draft = msgspec.structs.replace(read_roster(path, upgrade=True), server=read_public(key), signature=b"")
    write_roster(path, draft)
    _print(f"{path} names {key} as the key of the server's log; now sign it: f2ed roster sign")


@roster.command
def sign(
    path: Annotated[Path, Parameter(help="The roster's file.")],
    *,
    authority: Annotated[Path, Parameter(help="The authority's private key.")],
    shards: Annotated[int | None, Parameter(help="Number of shards; at first the planner's.")] = None,
    min_crowd: Annotated[int | None, Parameter(help="Minimum number of clients in any opened sum; at first 4.")] = None,
    malicious: Annotated[
        int | None, Parameter(help="Number of malicious clients to assume; for new groups at first 1 of 10.")
    ] = None,
    chance: Annotated[
        float | None,
        Parameter(help="Largest chance for a client of a new group to be outnumbered by these; at first 0.01."),
    ] = None,
    every: Annotated[int | None, Parameter(help="Reshard whole groups every N rounds; 0, as at first, never.")] = None,
    group_size: Annotated[
        int | None,
        Parameter(help="Smallest size of a group, whose members are opened together; at first a shard, or 4."),
    ] = None,
    regroup: Annotated[
        Regroup, Parameter(help="Make new groups for all who wait (pool), everyone (all), newcomers (new) or nobody.")
    ] = "auto",
    mode: Annotated[
        ModeChoice | None, Parameter(help="The scheme of all shards; auto, as at first, chooses by their size.")
    ] = None,
    colluders: Annotated[
        int | None, Parameter(help="How many members of a shard may collude with the server; at first 1.")
    ] = None,
    key_rounds: Annotated[
        int | None, Parameter(help="Rounds after which fixed shards agree on new keys; at first 50.")
    ] = None,
    first_round: Annotated[
        int | None,
        Parameter(help="Where new nodes and nodes that were away begin; rounds count over all runs."),
    ] = None,
    skip: Annotated[
        int | None, Parameter(help="Largest step between two rounds that a node answers; at first 2 x key rounds.")
    ] = None,
    agreement: Annotated[
        Agreement | None,
        Parameter(help="How two clients agree on keys; x25519 alone, which is weaker, falls to a quantum computer."),
    ] = None,
    clip_value: Annotated[
        float | None, Parameter(help="Largest magnitude of a coordinate of an update; at first 1.")
    ] = None,
    clip_norm: Annotated[
        float | None, Parameter(help="Largest L2 norm of an update; inf, as at first, for no limit.")
    ] = None,
    bits: Annotated[int | None, Parameter(help="Bits of an encoded coordinate; at first 20.")] = None,
    noise_multiplier: Annotated[
        float | None, Parameter(help="Noise in a shard's sum, as a multiple of --clip-norm; at first 0.")
    ] = None,
    weight: Annotated[
        list[str] | None,
        Parameter(negative="", help="How much a client's update counts, as in hospital_a=3; at first 1."),
    ] = None,
    weight_cap: Annotated[
        int | None, Parameter(help="Largest weight that a client may have; at first the largest that is given.")
    ] = None,
    expires: Annotated[str | None, Parameter(help="Last day (UTC) that nodes follow it, as in 2031-12-31.")] = None,
    days: Annotated[int | None, Parameter(help="The same, in days from today; 90 unless given.")] = None,
    accept: Annotated[
        list[Risk] | None,
        Parameter(
            negative="--accept-nothing",
            help="Take this risk too, which every node then prints when it starts; may be repeated.",
        ),
    ] = None,
    accept_no_guarantee: Annotated[
        bool, Parameter(negative="", help="Sign although the planner finds no guarantee.")
    ] = False,
    apps: AppOptions = AppOptions(),  # noqa: B008  frozen
    training: TrainingOptions = TrainingOptions(),  # noqa: B008  frozen
) -> None:
    """Close the list, draw the public seed and sign: from now on nobody can choose who shares a shard, or how.

    A roster that was signed before keeps every setting that is left out, except the day on which it expires. What
    changes is printed, with what the sums over all groups that ever were reveal about single clients. Groups never
    change: whoever leaves ends its group, and whoever comes waits until the rules allow a new one.

    Example: f2ed roster sign roster.json --authority authority.key --app APP --shards 2 --min-crowd 4
    """
    before = read_roster(path, upgrade=True)
    taken = (*before.accepted, *accept) if accept else before.accepted if accept is None else ()
    clients, cap = weighted(before, weight or (), weight_cap)
    draft = revised(
        before,
        clients=clients,
        weight_cap=cap,
        encoding=changed_encoding(before.encoding, clip_value, clip_norm, bits),
        noise_multiplier=before.noise_multiplier if noise_multiplier is None else noise_multiplier,
        agreement=before.agreement if agreement is None else agreement,
        expires=last_day(expires, days),
    )
    draft = training.applied(apps.applied(draft, taken), taken)
    kept = draft.serial > 0
    crowd = min_crowd if min_crowd is not None else draft.min_crowd if kept else 4
    planned = partial(_planned, malicious=malicious or 0, crowd=crowd, accept_no_guarantee=accept_no_guarantee)
    advice = None if kept and shards is None else planned(draft.keys, shards)
    private = read_private(authority)
    check_authority(draft, private)
    secret = _chain(authority, draft.draw)
    made = signed(
        draft,
        private,
        shards=None if advice is None else shards or advice.recommended,
        min_crowd=crowd,
        schedule=_schedule(every, group_size, draft.schedule),
        mode=mode if mode is not None else draft.mode if kept else "auto",
        colluders=colluders if colluders is not None or not kept else draft.colluders,
        key_rounds=key_rounds if key_rounds is not None else draft.key_rounds,
        first_round=first_round if first_round is not None else draft.first_round,
        skip=skip if skip is not None or not kept else draft.skip,
        group_size=group_size,
        malicious=malicious,
        chance=chance,
        regroup=regroup,
        accepted=taken,
        seed=secret,
    )
    advice = advice or planned(made.keys.keys() - set(made.waiting), made.shards)
    write_roster(path, made)
    _print(
        advice.verdict,
        *changes(before, made),
        *training_lines(before, made),
        *app_lines(before, made),
        *group_lines(before, made, options(made, secret) if made.waiting else []),
        f"Signed {path}, serial {made.serial}, until {made.expires}. Its digest is {made.digest.hex()}.",
        "Give this file to every node and to the server.",
    )


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
    _print(f"The node whose state is in {state} follows the roster {digest} from now on.")


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
        check_groups(found)
    except PeerError as error:
        raise ConfigError(str(error)) from None
    if json:
        sys.stdout.write(msgspec.json.encode(found).decode() + "\n")
        return
    _print(
        f"{found.name}, serial {found.serial}: {len(found.clients)} clients in {found.shards} shards, "
        f"min_crowd {found.min_crowd}, mode {found.mode}, at most {found.colluders} colluders in a shard, new keys "
        f"every {found.key_rounds} rounds. The signature is valid.",
        *([f"Clients that wait for a group: {', '.join(map(str, found.waiting))}."] if found.waiting else []),
        f"Nodes follow it until {found.expires or 'another is signed'}. Its digest is {found.digest.hex()}.",
        *(f"ACCEPTED RISK: {risk}" for risk in found.accepted),
        *(f"{entry.id:6d}  {entry.name}  {entry.key.hex()}" for entry in found.clients),
        *rule_lines(found.training),
        *(f"   app  {app.name}  {app.sha256.hex()}" for app in found.apps),
    )


def _planned(
    clients: Collection[int], shards: int | None, *, malicious: int, crowd: int, accept_no_guarantee: bool
) -> ShardPlan:
    """Return the planner's verdict; refuse numbers that guarantee nothing."""
    advice = plan_shards(clients=max(1, len(clients)), malicious=malicious, min_crowd=crowd, shards=shards)
    number = shards if shards is not None else advice.recommended
    if number is None or not (advice.ok or accept_no_guarantee):
        fix = "; or ".join(change.text for change in advice.changes)
        last = ", or pass --accept-no-guarantee" if number is not None else ""
        raise ConfigError(f"{advice.verdict} {' '.join(advice.why)} You may {fix}{last}.")
    return advice


def _schedule(every: int | None, size: int | None, before: Schedule) -> Schedule:
    """Return the schedule: groups that stay in their shards, or are resharded whole; groups of one are clients."""
    if every is None and not (size and isinstance(before, Batches)):
        return before
    k = before.k if every is None and isinstance(before, Batches) else every
    if not k:
        return Fixed()
    return EveryKRounds(k) if size == 1 else Batches(size or DEFAULT_SIZE, k)


def _chain(authority: Path, draw: Draw) -> bytes:
    """Return the secret of the authority's chain, which is beside its key; draw it for a roster that has none yet."""
    path = authority.with_suffix(".chain")
    if not path.exists() and not draw.head:
        write_new(path, os.urandom(32).hex().encode() + b"\n", secret=True)
    return read_secret(path)


def _rewrite(path: Path, draft: Roster, clients: tuple[Entry, ...], gone: Sequence[Gone] = ()) -> None:
    """Write a draft with other clients; its settings stay for the next signing."""
    write_roster(path, revised(draft, clients=clients, gone=(*draft.gone, *gone)))


def _print(*lines: str) -> None:
    sys.stdout.write("\n".join(lines) + "\n")


roster.command(forget)
