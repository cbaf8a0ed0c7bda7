"""Helpers in a signed roster: what makes them acceptable, their countersignatures, and the terms of a round with them.

The authority signs who the helpers are. Each helper then signs the digest of that roster with its role and operator,
so nobody is named as a helper who does not know of it. Clients and helpers refuse a roster without both signatures.
"""

from collections.abc import Callable

import msgspec

from f2ed.core.errors import ConfigError, PeerError, Refusal
from f2ed.deployment.roster.helper_parts import Countersignature, HelperEntry, HelperRole, Helpers
from f2ed.deployment.roster.roster import Roster
from f2ed.protocol.helpers import JUDGE, MIXER, SERVER, Party, Role, Terms, check_rule, check_terms, helper_terms
from f2ed.protocol.primitives.crypto import digest, public_key, sign, verify
from f2ed.protocol.sharding import ClientId

__all__ = [
    "acceptance",
    "check_countersigned",
    "check_helpers",
    "countersigned",
    "helped_terms",
    "helper_lines",
    "helpers_of",
    "round_members",
    "smallest_sum",
]

_ROLES: tuple[HelperRole, HelperRole] = ("mixer", "judge")


def helpers_of(roster: Roster) -> Helpers:
    """Return the helpers of a roster, or refuse one that names none."""
    if not roster.helpers:
        raise Refusal(f"the roster {roster.name!r} (serial {roster.serial}) names no helpers: f2ed roster helper")
    return roster.helpers


def check_helpers(roster: Roster) -> None:
    """Raise `ConfigError` for helpers that nobody should follow; a roster without any is in order."""
    helpers = roster.helpers
    if not helpers:
        return
    missing = [role for role in _ROLES if helpers.party(role) is None]
    if missing:
        raise ConfigError(f"the roster names no {missing[0]}; name one: f2ed roster helper --role {missing[0]}")
    if not helpers.operator or not roster.server:
        raise ConfigError("the roster names helpers but not who runs the server: f2ed roster helper --role server")
    _check_settings(roster)
    check_rule(helpers.rule)
    # The operators, keys and groups: as every party checks them in a round.
    check_terms(helped_terms(roster, roster.job(0), roster.first_round, coordinates=1))


def check_countersigned(roster: Roster) -> None:
    """Refuse helpers that are not acceptable, or did not agree to serve; a roster without any is in order."""
    if not roster.helpers:
        return
    try:
        check_helpers(roster)
    except ConfigError as error:
        raise Refusal(f"the helpers of the roster {roster.name!r} cannot be accepted: {error}") from None
    found = {each.role: each.signature for each in roster.countersignatures or ()}
    for entry in roster.helpers.parties:
        if entry.role not in found:
            raise Refusal(
                f"the {entry.role} of the roster {roster.name!r} (serial {roster.serial}) has not countersigned it; "
                f"{entry.operator} does so with f2ed roster countersign, and the authority gives everyone that file"
            )
        try:
            verify(entry.key, _text(roster, entry), found[entry.role])
        except PeerError:
            raise Refusal(
                f"the countersignature of the {entry.role} is not by the key that the roster names for "
                f"{entry.operator}, or of another roster, role or operator"
            ) from None


def countersigned(roster: Roster, key: bytes) -> Roster:
    """Return a signed roster with the countersignature of the helper that has this private key."""
    if not roster.signature:
        raise ConfigError(f"the roster {roster.name!r} is a draft; the authority signs first: f2ed roster sign")
    helpers, public = helpers_of(roster), public_key(key)
    check_helpers(roster)
    mine = [entry for entry in helpers.parties if entry.key == public]
    if not mine:
        raise ConfigError("this is not the private key of a helper on the roster; sign with the one that it names")
    (entry,) = mine
    made = Countersignature(entry.role, sign(key, _text(roster, entry)))
    others = (each for each in roster.countersignatures or () if each.role != entry.role)
    every = tuple(sorted((made, *others), key=lambda each: each.role))
    return msgspec.structs.replace(roster, countersignatures=every)


def helped_terms(roster: Roster, job: str, round_: int, *, coordinates: int) -> Terms:
    """Return the only terms of a round that a roster with helpers allows, for this many coordinates."""
    helpers = helpers_of(roster)
    parties: dict[Role, Party] = {SERVER: Party(helpers.operator, roster.server)}
    for role in (MIXER, JUDGE):
        entry = next(each for each in helpers.parties if each.role == role)
        parties[role] = Party(entry.operator, entry.key)
    terms = helper_terms(
        helpers.settings,
        policy=roster.digest,
        job=job,
        round_=round_,
        members=round_members(roster),
        coordinates=coordinates,
        clip_norm=roster.encoding.clip_norm or 0.0,
        rule=helpers.rule,
        parties=parties,
    )
    # The groups are those that the authority's chain drew, and every sum keeps to the roster's own minimum.
    return msgspec.structs.replace(
        terms,
        groups=_groups(roster) if terms.groups else (),
        crowd=max(terms.crowd, roster.min_crowd),
    )


def round_members(roster: Roster) -> tuple[ClientId, ...]:
    """Return the clients that take part in every round with helpers: all but those that wait for a group."""
    return tuple(client for client in sorted(roster.keys) if client not in roster.waiting)


def smallest_sum(roster: Roster) -> int:
    """Return the smallest number of clients in a sum that is opened with helpers."""
    return helped_terms(roster, roster.job(0), roster.first_round, coordinates=1).crowd


def acceptance(roster: Roster) -> Callable[[Terms], None]:
    """Return the check that a client or helper makes of terms: they must be those that follow from its roster."""

    def accept(terms: Terms) -> None:
        own = helped_terms(roster, terms.job, terms.round, coordinates=terms.coordinates)
        if differing := [name for name in Terms.__struct_fields__ if getattr(own, name) != getattr(terms, name)]:
            raise Refusal(
                f"the terms differ from the roster {roster.name!r} (serial {roster.serial}) in "
                f"{', '.join(differing)}; nobody but the authority sets them"
            )

    return accept


def helper_lines(roster: Roster) -> list[str]:
    """Return who runs server, mixer and judge, for people to read."""
    if not roster.helpers:
        return []
    named = [("server", roster.helpers.operator, roster.server)]
    named += [(each.role, each.operator, each.key) for each in roster.helpers.parties]
    return [f"{role:>6}  {operator}  {key.hex()}" for role, operator, key in named]


def _check_settings(roster: Roster) -> None:
    """Refuse settings that helpers do not offer."""
    if roster.encoding.clip_norm is None:
        raise ConfigError("helpers without a clip_norm, which the range tests need: f2ed roster sign --clip-norm")
    if roster.noise_multiplier:
        raise ConfigError("helpers with a noise_multiplier: their filter has no bounded sensitivity; sign with 0")
    if roster.shards_per_round:
        raise ConfigError("helpers with shards_per_round: everyone is asked in every round; sign with 0")
    if roster.training.masked_metrics:
        raise ConfigError("helpers with masked metrics, which need shards; sign without --metric")
    if len({entry.weight for entry in roster.clients}) > 1:
        raise ConfigError("helpers with different weights of clients: one is in the sum or not; sign equal weights")
    size = roster.helpers.settings.size if roster.helpers else 0
    smallest = min((len(group) for group in _groups(roster)), default=0)
    if roster.helpers and roster.helpers.settings.guard == "groups" and smallest < size:
        raise ConfigError(
            f"a group of {smallest}, and the helpers' settings demand groups of {size}; sign with --group-size {size}, "
            "or demand smaller ones: f2ed roster helper-settings --size"
        )


def _groups(roster: Roster) -> tuple[tuple[ClientId, ...], ...]:
    return tuple(sorted(tuple(sorted(group.members)) for group in roster.groups))


def _text(roster: Roster, entry: HelperEntry) -> bytes:
    return digest(b"f2ed countersignature 1", roster.digest, entry.role.encode(), entry.operator.encode())
