"""Which terms are safe at all (`check`), and which of them this client accepts (`accept`)."""

from math import isfinite

from f2ed.core.errors import ConfigError, Refusal
from f2ed.protocol.primitives.ring import largest_bits
from f2ed.protocol.secagg.member import Member
from f2ed.protocol.secagg.schemes import Scheme, scheme_of
from f2ed.protocol.secagg.terms import MIN_CROWD, Terms

__all__ = ["accept", "check"]

_MOST_SHOWN = 100
_OTHER_ROSTER = ". They hold different rosters, or different serials of one: give both the newest file"


def check(terms: Terms) -> None:
    """Raise `ConfigError` for terms under which a member could be singled out, or a sum could wrap around."""
    scheme = scheme_of(terms.mode)
    count = len(terms.members)
    if list(terms.members) != sorted(set(terms.members)):
        raise ConfigError("the members must be in ascending order, each once")
    if terms.bits > (most := largest_bits(terms.ring, count)):
        raise ConfigError(
            f"{count} terms of {terms.bits} bits overflow a {terms.ring}-bit sum; use at most {most} bits"
        )
    _check_groups(terms)
    _check_weights(terms)
    _check_noise(terms, scheme)
    if scheme.masked:
        _check_quorum(terms, scheme)
        _check_balance(terms)
    scheme.check(terms)


def accept(member: Member, stated: Terms) -> Terms:
    """Return the terms that this client follows, or refuse those that it did not agree to or that could single it out.

    A client that derives its terms follows its own, of which the server's must be a copy: nothing that the server
    states has an effect.
    """
    terms = stated if member.terms is None else _derived(member.terms(stated.round, stated.length), stated)
    try:
        check(terms)
    except ConfigError as error:
        raise Refusal(f"the terms cannot be accepted: {error}") from None
    if terms.job != member.job:
        raise Refusal(f"an invitation to job {terms.job!r}; this client takes part in {member.job!r}")
    if member.id not in terms.members:
        raise Refusal(f"client {member.id} is not among the members of shard {terms.shard}")
    if strangers := [client for client in terms.members if client not in member.roster]:
        raise Refusal(f"client {strangers[0]} is not on the roster, so its key is not authenticated")
    if member.shard is not None and tuple(sorted(member.shard(terms.round))) != terms.members:
        raise Refusal("the members are not those that the roster, the round and the seed assign to this client's shard")
    if terms.noise < member.noise:
        raise Refusal(
            f"the terms state noise of {terms.noise:g} times the clip norm; this client demands {member.noise:g}"
        )
    if not scheme_of(terms.mode).masked and not member.clear:
        raise Refusal("the server asked for an upload in the clear; this client only takes part in masked sums")
    return terms


def _derived(own: Terms, stated: Terms) -> Terms:
    """Return this client's own terms, or refuse by name what the server states differently."""
    for name in Terms.__struct_fields__:
        found, wanted = getattr(stated, name), getattr(own, name)
        if found != wanted or repr(found) != repr(wanted):  # -0.0 is equal to 0.0, and binds another context
            raise Refusal(
                f"the server states {name} {_shown(found)} for round {stated.round}; this client's roster says "
                f"{_shown(wanted)}{_OTHER_ROSTER if name == 'job' else ''}"
            )
    return own


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}…"


def _check_groups(terms: Terms) -> None:
    if not terms.groups:
        return
    if any(list(group) != sorted(set(group)) for group in terms.groups) or list(terms.groups) != sorted(terms.groups):
        raise ConfigError("the groups must be in ascending order, and the members of each as well")
    if sorted(client for group in terms.groups for client in group) != list(terms.members):
        raise ConfigError("the groups are not exactly the members of the shard; every member belongs to one group")


def _check_weights(terms: Terms) -> None:
    if not terms.weights:
        if terms.weight_cap != 1:
            raise ConfigError(f"a weight cap of {terms.weight_cap} without weights; leave it at 1")
        return
    if len(terms.weights) != len(terms.members):
        raise ConfigError(f"{len(terms.weights)} weights for {len(terms.members)} members; give one each")
    if (heaviest := max(terms.weights)) > terms.weight_cap:
        raise ConfigError(f"a weight of {heaviest} above the cap of {terms.weight_cap}; cap the weights first")


def _check_noise(terms: Terms, scheme: Scheme) -> None:
    """Refuse noise that the smallest sum that may be opened would not contain."""
    if not terms.noise:
        if terms.carriers != 1:
            raise ConfigError(f"{terms.carriers} members to carry noise, and no noise; leave it at 1")
        return
    if not isfinite(terms.clip_norm):
        raise ConfigError("noise without an L2 clip; set clip_norm to about the norm of an honest update")
    honest = terms.min_crowd - terms.colluders if scheme.masked else len(terms.members)
    if terms.carriers > honest:
        raise ConfigError(
            f"noise that takes {terms.carriers} members, and a sum of {terms.min_crowd} with {terms.colluders} "
            f"colluders may be opened; let at most {honest} carry it"
        )


def _check_quorum(terms: Terms, scheme: Scheme) -> None:
    count = len(terms.members)
    threshold = scheme.quorum(count, terms.colluders).threshold
    if not threshold <= terms.threshold <= count:
        raise ConfigError(
            f"a threshold of {terms.threshold} for {count} members of whom {terms.colluders} collude; "
            f"it must be from {threshold} to {count}"
        )
    min_crowd = max(terms.threshold, MIN_CROWD, terms.colluders + 2)
    if not min_crowd <= terms.min_crowd <= count:
        raise ConfigError(
            f"sums of {terms.min_crowd} may be opened among {count} members; a sum must take at least {min_crowd} to "
            f"hide one among honest others, and no more than there are"
        )


def _check_balance(terms: Terms) -> None:
    """Refuse weights under which a sum that may be opened is mostly one member: the others would not hide it."""
    if not terms.weights:
        return
    *others, heaviest = sorted(terms.weights)
    if heaviest > (others_weight := sum(others[: terms.min_crowd - 1 - terms.colluders])):
        raise ConfigError(
            f"a member of weight {heaviest} may be opened with honest others whose weights sum to {others_weight}; "
            "lower the cap until no member outweighs those it hides among"
        )
