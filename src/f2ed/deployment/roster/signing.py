"""Closing and signing a roster, and checking who signed it."""

from collections.abc import Iterable

import msgspec

from f2ed.core.errors import ConfigError, PeerError, Refusal
from f2ed.deployment.roster.groups import check_groups
from f2ed.deployment.roster.helpers import check_helpers
from f2ed.deployment.roster.parts import Grouping, Risk
from f2ed.deployment.roster.regroup import Regroup, default_size, grouped
from f2ed.deployment.roster.roster import KEY_ROUNDS, Roster, revised
from f2ed.deployment.roster.terms import round_task
from f2ed.protocol.aggregation import shard_terms
from f2ed.protocol.primitives.crypto import public_key, sign, verify
from f2ed.protocol.secagg import MIN_CROWD, ModeChoice, check, choose_mode
from f2ed.protocol.sharding import Fixed, Schedule

__all__ = ["check_authority", "check_signature", "default_colluders", "signed"]

_FIXED = Fixed()


def signed(
    draft: Roster,
    authority: bytes,
    *,
    shards: int | None,
    min_crowd: int,
    schedule: Schedule = _FIXED,
    mode: ModeChoice = "auto",
    colluders: int | None = None,
    key_rounds: int = KEY_ROUNDS,
    first_round: int = 0,
    skip: int | None = None,
    shards_per_round: int | None = None,
    group_size: int | None = None,
    malicious: int | None = None,
    chance: float | None = None,
    regroup: Regroup = "auto",
    accepted: Iterable[Risk] | None = None,
    seed: bytes,
) -> Roster:
    """Close the list and sign it. `authority` is the private key; `seed` is the secret of its chain.

    The secret is 32 bytes of `os.urandom`, drawn before any client had a key and used for all serials. Without a number
    of shards they are as many as before, or as there are groups. For the groups see `grouped`; `malicious` and `chance`
    are those of the pool rule, by default one client of ten and 0.01, or as before. By default the mode follows the
    size of a shard, one member of a shard may collude with the server, and a node follows the server over at most 2 *
    `key_rounds` missed rounds, or as many times more as shards are drawn more rarely. `shards_per_round` draws so many
    of fixed shards for each round; 0 for all. All else is as in the draft.
    """
    check_authority(draft, authority)
    per_round = draft.shards_per_round if shards_per_round is None else shards_per_round or msgspec.UNSET
    # A shard that is drawn for one round of k waits k times as long.
    rarely = -(-(shards or max(1, draft.shards)) // per_round) if per_round else 1
    largest_step = 2 * key_rounds * rarely if skip is None else skip
    for name, given, least in (
        ("key_rounds", key_rounds, 1),
        ("first_round", first_round, 0),
        ("skip", largest_step, 1),
    ):
        if given < least:
            raise ConfigError(f"{name} of {given}; it must be {least} or more")
    serial, replace = draft.serial + 1, msgspec.structs.replace
    clients = sorted(draft.clients, key=lambda entry: entry.id)
    outline = revised(
        draft,
        serial=serial,
        clients=tuple(replace(entry, since=entry.since or serial) for entry in clients),
        gone=tuple(replace(entry, until=entry.until or serial) for entry in draft.gone),
        shards=shards or max(1, draft.shards),
        shards_per_round=per_round,
        min_crowd=min_crowd,
        schedule=schedule,
        key_rounds=key_rounds,
        first_round=first_round,
        skip=largest_step,
        accepted=draft.accepted if accepted is None else tuple(sorted(set(accepted))),
    )
    about = len(clients) // outline.shards
    number = default_colluders(about) if colluders is None else colluders
    _check_colluders(number, about)
    outline = replace(outline, mode=choose_mode(mode, about), colluders=number)
    outline = replace(outline, grouping=_grouping(draft, outline, group_size, malicious, chance))
    final_list = grouped(outline, seed, regroup)
    if shards is None:
        final_list = replace(final_list, shards=_shards(draft, final_list))
    final_list.assignment(0)  # Raises if these groups cannot be assigned like this.
    _check_colluders(number, final_list.smallest_shard)
    check_helpers(final_list)
    try:
        check_groups(final_list)
    except Refusal as error:
        raise ConfigError(str(error)) from None
    if final_list.smallest_shard >= MIN_CROWD:
        _check_terms(final_list)
    try:
        msgspec.json.decode(msgspec.json.encode(final_list), type=Roster)
    except msgspec.ValidationError as error:
        raise ConfigError(f"a roster that no node could read: {error}") from None
    return replace(final_list, signature=sign(authority, final_list.digest))


def check_authority(draft: Roster, authority: bytes) -> None:
    """Raise `ConfigError` unless this is the private key that signs the roster."""
    if public_key(authority) != draft.authority:
        raise ConfigError("this is not the private key of the roster's authority; sign with the one it was made with")


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


def _check_terms(roster: Roster) -> None:
    """Refuse what no node would follow, such as weights under which one member stands out."""
    task = round_task(roster, roster.name, roster.first_round, model=bytes(32), coordinates=1)
    terms = shard_terms(roster.whole_assignment(roster.first_round), task)
    for each in terms:
        check(each)
    if task.weights and not isinstance(roster.schedule, Fixed):
        # The heaviest may once share a shard with the lightest.
        *others, heaviest = sorted(task.weights.values())
        each = min(terms, key=lambda each: len(each.members))
        check(msgspec.structs.replace(each, weights=(*others[: len(each.members) - 1], heaviest)))


def _grouping(
    draft: Roster, outline: Roster, size: int | None, malicious: int | None, chance: float | None
) -> Grouping:
    """Return the rules for new groups: those given, those of the serial before, or the defaults."""
    before = draft.grouping
    same = before.size and (draft.schedule, draft.mode) == (outline.schedule, outline.mode)
    return Grouping(
        size=size or (before.size if same else default_size(outline)),
        hidden=before.hidden,
        malicious=malicious if malicious is not None else before.malicious or len(outline.clients) // 10,
        chance=before.chance if chance is None else chance,
    )


def _check_colluders(number: int, smallest: int) -> None:
    """Refuse colluders among whom nobody could hide."""
    most = max(0, smallest - 2)
    if not 0 <= number <= most:
        raise ConfigError(
            f"{number} colluders in a shard of {smallest}: nobody could hide; assume 0 to {most}, or sign for fewer "
            "shards"
        )


def _shards(draft: Roster, made: Roster) -> int:
    """Return as many shards as before; or one for each group, if that is how it was."""
    if draft.shards in (0, len(draft.groups)):
        return len(made.groups)
    return min(draft.shards, len(made.groups))


def default_colluders(smallest: int) -> int:
    """Return 1 where two honest members are left beside the colluder."""
    return 1 if smallest >= MIN_CROWD else 0
