"""The serials of a roster that a node has followed: it goes forward only, one signed step after another.

The first roster is the one that the site gives to the node. After it, an older serial, another roster with the same
serial and a step against the rules are refused. A step to weaker settings waits until someone at
the site types `f2ed roster accept DIGEST`.
"""

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import final

import msgspec

from f2ed.core.errors import Refusal
from f2ed.core.files import StoredValue, write_atomic
from f2ed.deployment.roster.groups import check_groups
from f2ed.deployment.roster.helpers import check_countersigned
from f2ed.deployment.roster.roster import Roster
from f2ed.deployment.roster.steps import check_serial, weaknesses

__all__ = ["Pin", "accept_weaker", "reset_day"]


@final
class _Pinned(msgspec.Struct, frozen=True):
    roster: Roster
    """The last one that was followed."""
    digests: dict[int, bytes]
    """Of all serials that were followed or passed."""
    day: str
    """The latest day on which this node looked, in UTC."""


@lru_cache(maxsize=16)
def _read_pin(data: bytes) -> _Pinned:
    """Decode a pin; the same bytes give the same roster again, without any work."""
    return msgspec.json.decode(data, type=_Pinned)


@final
class Pin(msgspec.Struct, frozen=True):
    """The file that records the serials."""

    path: Path

    def follow(self, shown: Sequence[Roster], *, day: str) -> Roster:
        """Return the roster that the node follows on this day, given all serials that the site has; or refuse.

        The signatures were checked before. Nothing is written while neither the roster nor the day changes.
        """
        pinned = self._stored.read()
        now = self._followed(pinned, shown, day)
        if now != pinned:
            with self._stored.hold() as held:
                if held.before != pinned:  # Another process moved on meanwhile.
                    now = self._followed(held.before, shown, day)
                held.write(now)
        return now.roster

    def preview(self, shown: Sequence[Roster], *, day: str) -> Roster:
        """Return what `follow` would, or refuse as it would, and write nothing."""
        return self._followed(self._stored.read(), shown, day).roster

    @property
    def _stored(self) -> StoredValue[_Pinned]:
        return StoredValue(
            self.path,
            _Pinned,
            "the roster that this node follows",
            repair="restore it; if it is lost, remove it, and give the node a roster that the authority confirms",
            remedy="name another folder with f2ed-state in the node config",
            decode=_read_pin,
        )

    def _followed(self, pinned: _Pinned | None, shown: Sequence[Roster], day: str) -> _Pinned:
        latest = max(shown, key=lambda roster: roster.serial)
        _check_forks(pinned, shown)
        check_countersigned(latest)
        if pinned is None:
            check_groups(latest)
            self._check_first(latest)
            now = _Pinned(latest, {latest.serial: latest.digest}, day)
        else:
            now = self._moved(pinned, sorted(shown, key=lambda roster: roster.serial), day)
        if now.roster.expires and day > now.roster.expires:
            raise Refusal(
                f"serial {now.roster.serial} of the roster {now.roster.name!r} expired on {now.roster.expires}, and "
                f"this is {day}; get the next serial from the authority, who signs it with f2ed roster sign"
            )
        return now

    def _check_first(self, roster: Roster) -> None:
        """Refuse a federation under a new name by an authority whose rosters this node follows, until the site agrees.

        A new name begins at no serial and no round, so it would get round the rules for the next serial.
        """
        for path in sorted(self.path.parent.glob("*.pin")):
            other = Pin(path)._stored.read()  # noqa: SLF001  a pin like this one
            if other is not None and other.roster.authority == roster.authority and not self._accepts(roster):
                raise Refusal(
                    f"the authority of the roster {roster.name!r} is that of {other.roster.name!r}, which this node "
                    f"follows; if the site agrees to both: f2ed roster accept {roster.digest.hex()} --state FOLDER, "
                    "with the folder of this node's state"
                )

    def _moved(self, pinned: _Pinned, shown: Sequence[Roster], day: str) -> _Pinned:
        """Take all steps from the pinned roster to the latest one."""
        if day < pinned.day:
            raise Refusal(
                f"the clock of this node says {day}, and it has seen {pinned.day}; set the clock. If it is right now, "
                "and was wrong before: f2ed roster reset-day --state FOLDER, with the folder of this node's state"
            )
        old, latest = pinned.roster, shown[-1]
        if latest.serial < old.serial:
            raise Refusal(
                f"serial {latest.serial} of the roster {latest.name!r} is older than serial {old.serial}, which this "
                "node follows; give it the newest file"
            )
        digests, drawing = dict(pinned.digests), []
        for new in shown:
            if new.serial > old.serial:
                check_serial(old, new)
                # What a draw was allowed outlives the serial that allowed it: its groups stay.
                drawing += [new] * (new.groups != old.groups and not self._accepts(new))
                old, digests[new.serial] = new, new.digest
        weaker = "; ".join(dict.fromkeys(each for new in (*drawing, old) for each in weaknesses(pinned.roster, new)))
        if weaker and not self._accepts(old):
            raise Refusal(
                f"serial {old.serial} of the roster is weaker than serial {pinned.roster.serial}, which this node "
                f"follows: {weaker}. If the site agrees: f2ed roster accept {old.digest.hex()} --state FOLDER, with "
                "the folder of this node's state"
            )
        return _Pinned(old, digests, day)

    def _accepts(self, roster: Roster) -> bool:
        return _acceptance(self.path.parent, roster.digest).exists()


def reset_day(folder: Path, *, day: str) -> list[str]:
    """Take a day for the latest that a node has seen; return the names of its federations that had seen a later one.

    For a site whose clock was ahead. A later day keeps a clock from being set back to follow a roster that expired.
    """
    found = []
    for path in sorted(folder.glob("*.pin")):
        with Pin(path)._stored.hold() as held:  # noqa: SLF001  as above
            before = held.before
            if before is not None and before.day > day:
                held.write(msgspec.structs.replace(before, day=day))
                found.append(before.roster.name)
    return found


def accept_weaker(folder: Path, digest: bytes) -> None:
    """Record, in the folder of a node's state, that the site agrees to a roster with weaker settings."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_atomic(_acceptance(folder, digest), b"")


def _acceptance(folder: Path, digest: bytes) -> Path:
    return folder / f"{digest.hex()}.accepted"


def _check_forks(pinned: _Pinned | None, shown: Sequence[Roster]) -> None:
    """Refuse two rosters with one serial, among those shown and those that were followed."""
    seen = {} if pinned is None else dict(pinned.digests)
    for roster in shown:
        if seen.setdefault(roster.serial, roster.digest) != roster.digest:
            raise Refusal(
                f"two different rosters {roster.name!r} with serial {roster.serial}, {seen[roster.serial].hex()} and "
                f"{roster.digest.hex()}; the authority signs one only: ask which of them it is"
            )
