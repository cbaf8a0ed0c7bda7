"""Closing and signing a roster, and checking who signed it."""

import msgspec

from f2ed.core.errors import ConfigError, PeerError
from f2ed.deployment.roster.roster import KEY_ROUNDS, Roster, revised
from f2ed.protocol.primitives.crypto import KEY_BYTES, public_key, sign, verify
from f2ed.protocol.secagg import MIN_CROWD, ModeChoice, choose_mode
from f2ed.protocol.sharding import Fixed, Schedule

__all__ = ["check_signature", "default_colluders", "signed"]

_FIXED = Fixed()


def signed(
    draft: Roster,
    authority: bytes,
    *,
    shards: int,
    min_crowd: int,
    schedule: Schedule = _FIXED,
    mode: ModeChoice = "auto",
    colluders: int | None = None,
    key_rounds: int = KEY_ROUNDS,
    first_round: int = 0,
    skip: int | None = None,
    seed: bytes,
) -> Roster:
    """Close the list and sign it. `authority` is the private key; `seed` is 32 fresh bytes of `os.urandom`.

    By default the mode follows the size of the smallest shard, one member of a shard may collude with the server, and a
    node follows the server over at most 2 * `key_rounds` missed rounds. All else is as in the draft.
    """
    if public_key(authority) != draft.authority:
        raise ConfigError("this is not the private key of the roster's authority; sign with the one it was made with")
    if len(seed) != KEY_BYTES:
        raise ConfigError(f"a seed of {len(seed)} bytes; draw {KEY_BYTES} from os.urandom")
    largest_step = 2 * key_rounds if skip is None else skip
    for name, given, least in (
        ("key_rounds", key_rounds, 1),
        ("first_round", first_round, 0),
        ("skip", largest_step, 1),
    ):
        if given < least:
            raise ConfigError(f"{name} of {given}; it must be {least} or more")
    if draft.signature:
        _check_unchanged(draft)
    serial, replace = draft.serial + 1, msgspec.structs.replace
    clients = sorted(draft.clients, key=lambda entry: entry.id)
    outline = revised(
        draft,
        serial=serial,
        clients=tuple(replace(entry, since=entry.since or serial) for entry in clients),
        gone=tuple(replace(entry, until=entry.until or serial) for entry in draft.gone),
        shards=shards,
        min_crowd=min_crowd,
        schedule=schedule,
        key_rounds=key_rounds,
        first_round=first_round,
        skip=largest_step,
        seed=seed,
    )
    outline.assignment(0)  # Raises if these clients cannot be assigned like this.
    smallest = outline.smallest_shard
    number = default_colluders(smallest) if colluders is None else colluders
    most = max(0, smallest - 2)
    if not 0 <= number <= most:
        raise ConfigError(
            f"{number} colluders in a shard of {smallest}: nobody could hide; assume 0 to {most}, or sign for fewer "
            "shards"
        )
    final_list = replace(outline, mode=choose_mode(mode, smallest), colluders=number)
    return replace(final_list, signature=sign(authority, final_list.digest))


def check_signature(roster: Roster, authority: bytes) -> None:
    """Raise `PeerError` unless the authority, known from elsewhere, signed exactly this."""
    if not roster.signature:
        raise PeerError(f"the roster {roster.name!r} is a draft: nobody signed it; run f2ed roster sign")
    if roster.authority != authority:
        raise PeerError(
            f"the roster {roster.name!r} names the authority {roster.authority.hex()[:16]}…; "
            f"this node trusts {authority.hex()[:16]}…"
        )
    try:
        verify(authority, roster.digest, roster.signature)
    except PeerError:
        raise PeerError(
            f"the roster {roster.name!r} was changed after it was signed; get it from the authority again"
        ) from None


def _check_unchanged(roster: Roster) -> None:
    """Refuse to follow a roster that nobody signed: the next serial would name a digest that no node knows."""
    try:
        verify(roster.authority, roster.digest, roster.signature)
    except PeerError:
        raise ConfigError(
            f"serial {roster.serial} of the roster {roster.name!r} was changed after it was signed; start from the "
            "file that was signed, and change it with f2ed roster sign"
        ) from None


def default_colluders(smallest: int) -> int:
    """Return 1 where two honest members are left beside the colluder."""
    return 1 if smallest >= MIN_CROWD else 0
