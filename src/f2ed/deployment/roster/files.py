"""Rosters as files, and those of older formats."""

from functools import lru_cache
from pathlib import Path
from typing import Any

import msgspec

from f2ed.core.errors import ConfigError
from f2ed.core.files import write_atomic
from f2ed.deployment.roster.roster import FORMAT, Roster
from f2ed.deployment.roster.signing import check_signature, default_colluders
from f2ed.protocol.secagg import choose_mode

__all__ = ["read_roster", "read_serials", "write_roster"]


class _Version(msgspec.Struct, frozen=True):
    format: int = 1


def read_roster(path: Path, *, upgrade: bool = False) -> Roster:
    """Read a roster's file, without checking who signed it; `upgrade` makes a draft of one of an older format."""
    return _decoded(_content(path), path, upgrade=upgrade)


def read_serials(path: Path, authority: bytes) -> tuple[Roster, ...]:
    """Read a roster's file, or all files in a folder that end in .json, and check that the authority signed them.

    The files are read each time. Bytes that were verified before give the same roster again, without any work.
    """
    files = sorted(path.glob("*.json")) if path.is_dir() else [path]
    if not files:
        raise ConfigError(f"the folder {path} holds no roster; put the files of all serials into it, as *.json")
    found = tuple(_verified(_content(file), file, authority) for file in files)
    for roster in found:
        if roster.name != found[0].name:
            raise ConfigError(f"the folder {path} holds rosters of {found[0].name!r} and {roster.name!r}; keep one")
    return found


def write_roster(path: Path, roster: Roster) -> None:
    """Write a roster for people to read and programs to check."""
    write_atomic(path, msgspec.json.format(msgspec.json.encode(roster)) + b"\n", mode=0o644)


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigError(f"the roster {path} cannot be read: {error.strerror}") from None


@lru_cache(maxsize=256)
def _verified(data: bytes, path: Path, authority: bytes) -> Roster:
    """Return a roster that the authority signed. Kept by all of its bytes: a file that changed is verified again."""
    roster = _decoded(data, path)
    check_signature(roster, authority)
    return roster


def _decoded(data: bytes, path: Path, *, upgrade: bool = False) -> Roster:
    try:
        number = msgspec.json.decode(data, type=_Version).format
        if number >= FORMAT:
            return msgspec.json.decode(data, type=Roster)
        if not upgrade:
            raise ConfigError(
                f"{path} is a roster of an older format ({number}; this is {FORMAT}), which leaves settings to the "
                "server; the authority signs it again with f2ed roster sign, and gives it to everyone"
            )
        return _upgraded(data, number)
    except msgspec.DecodeError as error:
        raise ConfigError(f"{path} is not a roster: {error}; make one with f2ed roster new") from None


def _upgraded(data: bytes, number: int) -> Roster:
    """Return a draft with the content of a roster of an older format."""
    content = msgspec.json.decode(data, type=dict[str, Any]) | {"format": FORMAT, "signature": ""}
    roster = msgspec.convert(content, Roster)
    if number > 1:
        return roster
    # The first format knew neither when clients came nor how their sums are masked.
    smallest = len(roster.clients) // roster.shards if roster.shards else 0
    return msgspec.structs.replace(
        roster,
        clients=tuple(msgspec.structs.replace(entry, since=roster.serial) for entry in roster.clients),
        mode=choose_mode("auto", smallest),
        colluders=default_colluders(smallest),
    )
