"""What `f2ed roster sign` makes of its options, and how it prints what changes."""

from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime, timedelta
from math import inf

import msgspec

from f2ed.core.errors import ConfigError
from f2ed.deployment.roster import Entry, Roster, SignedEncoding

__all__ = ["changed_encoding", "changes", "last_day", "weighted"]

_DAYS = 90
_PRINTED_OTHERWISE = {"format", "name", "authority", "serial", "previous", "clients", "gone", "seed", "signature"}
_PRINTED_OTHERWISE |= {"groups", "history", "draw", "apps", "training", "countersignatures"}
_EMPTY: tuple[object, ...] = ("", b"", (), 0.0, msgspec.UNSET)


def changed_encoding(
    before: SignedEncoding, clip_value: float | None, clip_norm: float | None, bits: int | None
) -> SignedEncoding:
    """Return the encoding with what is given; an infinite `clip_norm` never clips."""
    return SignedEncoding(
        clip_value=before.clip_value if clip_value is None else clip_value,
        clip_norm=before.clip_norm if clip_norm is None else None if clip_norm == inf else clip_norm,
        bits=before.bits if bits is None else bits,
    )


def weighted(before: Roster, weights: Sequence[str], cap: int | None) -> tuple[tuple[Entry, ...], int]:
    """Return the clients with their weights, given as NAME=K, and the cap, beyond which nobody counts for more."""
    given: dict[str, int] = {}
    for each in weights:
        name, _, number = each.rpartition("=")
        if not number.isdecimal() or int(number) < 1:
            raise ConfigError(f"--weight {each}; write it as NAME=K with a whole number of 1 or more")
        given[name] = int(number)
    if unknown := set(given) - {entry.name for entry in before.clients}:
        raise ConfigError(f"no client on the roster is called {min(unknown)}; f2ed roster verify lists all clients")
    most = inf if cap is None else cap
    clients = tuple(
        msgspec.structs.replace(entry, weight=int(min(most, given.get(entry.name, entry.weight))))
        for entry in before.clients
    )
    largest = max((entry.weight for entry in clients), default=1)
    return clients, max(largest, before.weight_cap) if cap is None else cap


def last_day(expires: str | None, days: int | None) -> str:
    """Return the last day of a roster that is signed today."""
    if expires is not None and days is not None:
        raise ConfigError("--expires and --days name the same day; give one of them")
    today = datetime.now(UTC).date()
    try:
        day = today + timedelta(_DAYS if days is None else days) if expires is None else date.fromisoformat(expires)
    except (ValueError, OverflowError):
        raise ConfigError(f"the roster cannot expire on {expires or days}; write a day as in 2031-12-31") from None
    if day < today:
        raise ConfigError(f"the roster would expire on {day}, before today; name a later day")
    return day.isoformat()


def changes(before: Roster, after: Roster) -> Iterator[str]:
    """Yield a line for each thing that a signing changes."""
    old = {entry.id: entry for entry in before.clients}
    for entry in after.clients:
        if entry.since == after.serial:
            yield f"  + client {entry.id}  {entry.name}"
        if (was := old[entry.id].weight) != entry.weight:
            yield f"  weight of {entry.name}: {was} → {entry.weight}"
    for left in after.gone:
        if left.until == after.serial:
            yield f"  - client {left.id}  {left.name}, whose id, name and key are never used again"
    for name in Roster.__struct_fields__:
        one, other = getattr(before, name), getattr(after, name)
        if name in _PRINTED_OTHERWISE or (one == other and before.serial):
            continue
        if before.serial:
            yield f"  {name}: {_shown(one)} → {_shown(other)}"
        elif other not in _EMPTY:
            yield f"  {name}: {_shown(other)}"
    if before.serial and before.seed != after.seed:
        yield f"  Link {after.draw.link} of the chain is revealed: a new seed."


def _shown(value: object) -> str:
    if isinstance(value, msgspec.Struct):
        plain = msgspec.to_builtins(value)
        if value.__struct_config__.tag:
            return " ".join(map(str, plain.values()))
        return ", ".join(f"{name} {to}" for name, to in plain.items() if to is not None)
    if isinstance(value, tuple):
        return "; ".join(map(_shown, value)) or "none"
    return value.hex() if isinstance(value, bytes) else str(value)
