"""`f2ed roster sign`: close the list, and sign it with everything that nodes hold the server to."""

import os
import sys
from collections.abc import Collection
from functools import partial
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from f2ed.cli.app_options import AppOptions, app_lines
from f2ed.cli.array_options import ArrayOptions
from f2ed.cli.roster_keys import Passphrase
from f2ed.cli.roster_settings import changed_encoding, changes, last_day, weighted
from f2ed.cli.training_options import TrainingOptions, training_lines
from f2ed.core.errors import ConfigError
from f2ed.deployment.encrypted_key import ENTROPY, is_encrypted
from f2ed.deployment.keyfiles import Encryption, read_private, read_secret, write_secret
from f2ed.deployment.passphrase import passphrase as passphrase_of
from f2ed.deployment.roster import (
    Agreement,
    Draw,
    Risk,
    read_roster,
    revised,
    signed,
    write_roster,
)
from f2ed.deployment.roster.leak_text import group_lines
from f2ed.deployment.roster.regroup import DEFAULT_SIZE, Regroup, options
from f2ed.deployment.roster.signing import check_authority
from f2ed.guarantees import ShardPlan, plan_shards
from f2ed.protocol.secagg import ModeChoice
from f2ed.protocol.sharding import Batches, EveryKRounds, Fixed, Schedule

__all__ = ["chain_secret", "print_lines", "sign"]


def sign(
    path: Annotated[Path, Parameter(help="The roster's file.")],
    *,
    authority: Annotated[Path, Parameter(help="The authority's private key.")],
    shards: Annotated[int | None, Parameter(help="Number of shards; at first the planner's.")] = None,
    shards_per_round: Annotated[
        int | None, Parameter(help="Draw this many of the fixed shards for each round; 0, as at first, for all.")
    ] = None,
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
        int | None, Parameter(help="Largest weight: clients with more, such as samples, count for this; at first none.")
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
    passphrase: Passphrase = "",
    accept_no_guarantee: Annotated[
        bool, Parameter(negative="", help="Sign although the planner finds no guarantee.")
    ] = False,
    apps: AppOptions = AppOptions(),  # noqa: B008  frozen
    training: TrainingOptions = TrainingOptions(),  # noqa: B008  frozen
    arrays: ArrayOptions = ArrayOptions(),  # noqa: B008  frozen
) -> None:
    """Close the list, draw the public seed and sign: from now on nobody can choose who shares a shard, or how.

    A roster that was signed before keeps every setting that is left out, except the day on which it expires. What
    changes is printed, with what the sums over all groups that ever were reveal about single clients. Groups never
    change: a client that leaves ends its group, and one that joins waits until the rules allow a new one.

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
    draft = arrays.applied(training.applied(apps.applied(draft, taken), taken), taken)
    kept = draft.serial > 0
    crowd = min_crowd if min_crowd is not None else draft.min_crowd if kept else 4
    planned = partial(_planned, malicious=malicious or 0, crowd=crowd, accept_no_guarantee=accept_no_guarantee)
    advice = None if kept and shards is None else planned(draft.keys, shards)
    private = read_private(authority, passphrase)
    check_authority(draft, private)
    secret = chain_secret(authority, draft.draw, passphrase)
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
        skip=skip if skip is not None or not kept or shards_per_round is not None else draft.skip,
        shards_per_round=shards_per_round,
        group_size=group_size,
        malicious=malicious,
        chance=chance,
        regroup=regroup,
        accepted=taken,
        seed=secret,
    )
    advice = advice or planned(made.keys.keys() - set(made.waiting), made.shards)
    write_roster(path, made)
    print_lines(
        advice.verdict,
        *changes(before, made),
        *training_lines(before, made),
        *app_lines(before, made),
        *group_lines(before, made, options(made, secret) if made.waiting else []),
        f"Signed {path}, serial {made.serial}, until {made.expires}. Its digest is {made.digest.hex()}.",
        "Give this file to every node and to the server.",
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


def chain_secret(authority: Path, draw: Draw, source: str = "") -> bytes:
    """Return the secret of the authority's chain, which is beside its key; draw it for a roster that has none yet.

    A new one is encrypted where the key is.
    """
    path = authority.with_suffix(".chain")
    if not path.exists() and not draw.head:
        hidden = is_encrypted(authority.read_bytes())
        made = Encryption(passphrase_of(authority, source), os.urandom(ENTROPY)) if hidden else None
        write_secret(path, os.urandom(32), made)
    return read_secret(path, source)


def print_lines(*lines: str) -> None:
    """Print lines for people to read."""
    sys.stdout.write("\n".join(lines) + "\n")
