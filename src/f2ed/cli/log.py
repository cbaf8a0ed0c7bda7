"""`f2ed log`: check and compare the transparency logs of nodes, server and helpers."""

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated

import msgspec
from cyclopts import App, Parameter

from f2ed.cli.roster_keys import encryption
from f2ed.core.errors import ConfigError
from f2ed.deployment.identity import roster_from
from f2ed.deployment.keyfiles import write_pair
from f2ed.deployment.passphrase import SOURCES
from f2ed.deployment.transparency import (
    MEANINGS,
    Authors,
    Checked,
    Comparison,
    Finding,
    compare_logs,
    verify_logs,
    write_line,
)

__all__ = ["log"]

log = App(
    name="log",
    help="""Check and compare the signed logs of nodes, server and helpers.

    Each says what its author was told and did.

    Example: f2ed log compare hospital_a.log hospital_b.log server.log --roster roster.json
    """,
)

_File = Annotated[
    Path, Parameter(help="Logs of nodes and helpers (in their state folders) and of the server (beside its records).")
]
_Rosters = Annotated[
    list[Path],
    Parameter(
        name=["--roster", "-r"],
        negative="",
        help="The signed roster, checked before with f2ed roster verify; older ones too, if the server's key changed.",
    ),
]
_Json = Annotated[bool, Parameter(negative="", help="Print JSON for a program to read.")]

_PROGRESS_BYTES = 4 << 20


@log.command
def key(
    path: Annotated[Path, Parameter(help="Where the private key goes, such as server.key.")],
    *,
    passphrase: Annotated[str, Parameter(help=f"Encrypt it under a passphrase from: {SOURCES}.")] = "",
) -> None:
    """Create the key with which the server signs its log. Run this on the server.

    Example: f2ed log key server.key
    """
    public = write_pair(path, os.urandom(32), encryption(path, passphrase))
    sys.stdout.write(
        f"The private key is {path}: it stays on the server, which is given it as server_key.\n"
        f"Give {public} to the authority, which runs: f2ed roster server roster.json {public}\n"
    )


@log.command
def verify(*files: _File, roster: _Rosters, json: _Json = False) -> None:
    """Check logs: chain, signatures, numbers without gaps, each round begun once. The exit status is 1 if not.

    With the log of the server, the lines that it kept of a node or helper must be in that one's log. The files of one
    log may be given in any order.

    Example: f2ed log verify hospital_a.log --roster roster.json
    """
    if not files:
        raise ConfigError("no logs given; name files, as in: f2ed log verify hospital_a.log --roster roster.json")
    _report(files, roster, verify_logs, json=json)


@log.command
def compare(*files: _File, roster: _Rosters, json: _Json = False) -> None:
    """Find where parties were told different things, with the signed lines as evidence. The exit status is then 1.

    Checks what f2ed log verify checks, and looks for two lines of one author with the same number, two rosters with one
    serial, different contexts, inputs, terms, keys or survivors in one round of a shard, sets, strikes and masks on
    which mixer and judge differ, and rounds that the server's log does not list.

    Example: f2ed log compare hospital_a.log hospital_b.log server.log --roster roster.json
    """
    if len(files) < 2:
        raise ConfigError(f"{len(files)} logs given; name two or more to compare")
    _report(files, roster, compare_logs, json=json)


def _report(files: tuple[Path, ...], rosters: list[Path], check: Callable[..., Comparison], *, json: bool) -> None:
    authors = Authors.of([roster_from(path) for path in rosters])
    result = check(files, authors, progress=_Progress())
    serious = [each for each in result.findings if each.serious]
    if json:
        sys.stdout.write(_as_json(result).decode() + "\n")
    else:
        sys.stdout.write("".join(f"{text}\n" for text in _as_text(result, authors)))
    if serious:
        raise SystemExit(1)


def _as_json(result: Comparison) -> bytes:
    return msgspec.json.encode(
        {
            "files": [{**msgspec.structs.asdict(each), "path": str(each.path)} for each in result.files],
            "findings": [
                {**msgspec.structs.asdict(each), "serious": each.serious, "meaning": MEANINGS[each.kind]}
                for each in result.findings
            ],
        }
    )


def _as_text(result: Comparison, authors: Authors) -> Iterator[str]:
    for each in result.files:
        yield _file_text(each, authors)
    for finding in result.findings:
        yield from _finding_text(finding)
    serious = sum(each.serious for each in result.findings)
    yield f"{serious} problems found." if serious else "No problems found."


def _file_text(each: Checked, authors: Authors) -> str:
    return (
        f"{each.path}: {authors.name(each.by)}, {each.count} lines ({each.first} to {each.last}), "
        f"{each.since} to {each.until}"
    )


def _finding_text(finding: Finding) -> Iterator[str]:
    yield f"\n{finding.kind.upper() if finding.serious else finding.kind} at {finding.where}: {finding.text}"
    yield f"  {MEANINGS[finding.kind]}"
    yield from (f"  {write_line(line).decode()}" for line in finding.lines)


class _Progress:
    """Writes how far a large file is to standard error, on a terminal."""

    def __init__(self) -> None:
        self._next = _PROGRESS_BYTES

    def __call__(self, path: Path, done: int, size: int) -> None:
        if size < _PROGRESS_BYTES or not sys.stderr.isatty():
            return
        if done >= size:
            self._next = _PROGRESS_BYTES
            sys.stderr.write("\r\x1b[K")
        elif done >= self._next:
            self._next = done + _PROGRESS_BYTES
            sys.stderr.write(f"\r\x1b[K{path.name}: {100 * done // size} %")
