"""From one serial of a roster to the next: what must never happen, and what someone at the site must agree to."""

import operator
from collections.abc import Iterator
from datetime import date, timedelta
from math import inf
from typing import Any

import msgspec

from f2ed.core.errors import Refusal
from f2ed.deployment.roster.groups import check_step
from f2ed.deployment.roster.roster import Roster

__all__ = ["JUDGED", "check_serial", "weaknesses"]

_LESS = ("min_crowd", "colluders", "noise_multiplier", "grouping.size", "grouping.hidden", "grouping.malicious")
"""Weaker if smaller."""
_MORE = (
    *("key_rounds", "skip", "weight_cap", "encoding.clip_value", "encoding.clip_norm", "grouping.chance"),
    "training.stateful",
)
"""Weaker if larger."""
_OTHER = ("mode", "agreement", "buffers")
"""Weaker if it changes: someone has to compare."""
_LONGEST = timedelta(days=366)
"""How much later than the serial before it a serial may expire without a question."""
JUDGED = frozenset(name.partition(".")[0] for name in (*_LESS, *_MORE, *_OTHER, "accepted", "expires", "helpers"))
"""The fields of a roster that can become weaker."""


def check_serial(old: Roster, new: Roster) -> None:
    """Refuse a serial that does not follow from the one before by the rules."""
    if new.previous != old.digest or new.serial <= old.serial:
        raise Refusal(
            f"serial {new.serial} of the roster {new.name!r} does not follow serial {old.serial}, which this node "
            "follows; put the files of all serials in between into one folder, and name it with f2ed-roster"
        )
    if new.first_round < old.first_round:
        raise Refusal(
            f"serial {new.serial} begins at round {new.first_round}, before round {old.first_round} of serial "
            f"{old.serial}; rounds only go forward"
        )
    if old.helpers and new.helpers and old.helpers.settings.epoch != new.helpers.settings.epoch:
        raise Refusal(
            f"serial {new.serial} changes the helpers' epoch from {old.helpers.settings.epoch} to "
            f"{new.helpers.settings.epoch} rounds, which would reset strikes and survivors; keep it"
        )
    _check_identities(old, new)
    check_step(old, new)


def weaknesses(old: Roster, new: Roster) -> Iterator[str]:
    """Yield what gets weaker, setting by setting."""
    for names, worse in ((_LESS, operator.gt), (_MORE, operator.lt), (_OTHER, operator.ne)):
        for name in names:
            before, after = _value(old, name), _value(new, name)
            if worse(before, after):
                yield f"{name.rpartition('.')[2]} {before} → {after}"
    if old.expires and _much_later(old.expires, new.expires):
        yield f"expires {old.expires} → {new.expires or 'never'}"
    if old.helpers != new.helpers:
        yield f"helpers {_shown(old)} → {_shown(new)}"
    if old.helpers and new.helpers and old.server != new.server:
        yield f"server {old.server.hex()} → {new.server.hex()}, which the helpers work with"
    known = set(old.training.masked_metrics)
    yield from (
        f"the metric {rule.name}={rule} leaves the node, in sums"
        for rule in new.training.masked_metrics
        if rule not in known
    )
    yield from (f"the risk {risk!r} is accepted" for risk in sorted({*new.accepted} - {*old.accepted}))


def _shown(roster: Roster) -> str:
    """Return who could see every update if two of them colluded, and by which rules they are kept from it."""
    if not roster.helpers:
        return "none"
    return msgspec.json.encode(roster.helpers).decode()


def _much_later(before: str, after: str) -> bool:
    """Return whether an expiry moves by more than a year: a server could withhold the next serial as long."""
    try:
        return date.fromisoformat(after) - date.fromisoformat(before) > _LONGEST
    except ValueError:  # Never, or a day that no calendar has.
        return True


def _check_identities(old: Roster, new: Roster) -> None:
    """Refuse a serial that forgets who left, or gives somebody's id to another."""
    left = {entry.id: (entry.name, entry.key) for entry in new.gone}
    known = left | {entry.id: (entry.name, entry.key) for entry in new.clients}
    before = [(entry.id, (entry.name, entry.key), left) for entry in old.gone]
    before += [(entry.id, (entry.name, entry.key), known) for entry in old.clients]
    for client, identity, now in before:
        if client not in now:
            raise Refusal(
                f"client {client}, {identity[0]}, of serial {old.serial} is neither on serial {new.serial} nor among "
                "those who left; remove clients with f2ed roster remove"
            )
        if now[client] != identity:
            raise Refusal(
                f"client {client} was {identity[0]} in serial {old.serial}, and has another name or key in serial "
                f"{new.serial}; an id is never used again"
            )


def _value(roster: Roster, name: str) -> Any:
    value: Any = roster
    for part in name.split("."):
        value = getattr(value, part)
    return inf if value is None else value
