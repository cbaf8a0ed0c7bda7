"""What a node needs to take part, looked at before it starts."""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from cryptography.hazmat.primitives.serialization import load_ssh_private_key

from f2ed.core.errors import F2edError
from f2ed.deployment.doctor.checks import Check, attempt, failed, ok, warning
from f2ed.deployment.doctor.connection import connection_checks, contact
from f2ed.deployment.doctor.machine import certificate_check, folder_check, version_check
from f2ed.deployment.doctor.rosters import newest, roster_checks
from f2ed.deployment.keyfiles import read_private
from f2ed.deployment.roster import Roster
from f2ed.deployment.round_mark import RoundMark
from f2ed.protocol.secagg import public_key

__all__ = ["NodeFiles", "node_checks"]


class NodeFiles(NamedTuple):
    """What a node is started with."""

    roster: Path
    authority: Path
    key: Path
    superlink: str
    ca: Path
    connection_key: Path | None = None
    """With which the SuperNode authenticates to the SuperLink."""
    state: Path | None = None
    """By default beside the key."""
    passphrase: str = ""
    """The source of the key's passphrase."""


def node_checks(files: NodeFiles, *, timeout: float = 5.0) -> list[Check]:
    """Return all checks of a node; none of them changes anything."""
    now = datetime.now(UTC)
    state = files.state or files.key.with_suffix(".state")
    shown = newest(files.roster, files.authority)
    checks = [
        version_check(),
        *connection_checks(files.superlink, contact(files.superlink, files.ca, timeout=timeout), now=now),
        certificate_check("CA", files.ca, now=now),
        *roster_checks(shown, now=now, state=state),
        _key_check(files, shown),
        *([] if files.connection_key is None else [_connection_key(files.connection_key)]),
        folder_check("state", state),
    ]
    if not isinstance(shown, F2edError):
        checks.append(_rounds(state, shown[-1]))
    return checks


def _key_check(files: NodeFiles, shown: Sequence[Roster] | F2edError) -> Check:
    name = "identity key"
    try:
        public = public_key(read_private(files.key, files.passphrase))
    except F2edError as error:
        return attempt(name, error)
    if isinstance(shown, F2edError):
        return warning(name, f"{files.key} can be read; the roster to compare it with cannot", "see the roster above")
    mine = next((entry for entry in shown[-1].clients if entry.key == public), None)
    if mine is None:
        return failed(name, f"{files.key} is not on the roster", "the authority adds its .pub: f2ed roster add, sign")
    if mine.id in shown[-1].waiting:
        found = f"{files.key} is client {mine.id} ({mine.name}), which waits for a group and takes no part yet"
        return warning(name, found, "the authority signs again when enough clients wait")
    return ok(name, f"{files.key} is client {mine.id} ({mine.name})")


def _connection_key(path: Path) -> Check:
    name = "connection key"
    try:
        if path.stat().st_mode & 0o077:
            return failed(name, f"{path} may be read by others", f"chmod 600 {path}")
        key = load_ssh_private_key(path.read_bytes(), password=None)
    except OSError as error:
        return attempt(name, error, "make one with f2ed certs --nodes 1, and have the operator register its .pub")
    except (ValueError, TypeError):
        return failed(name, f"{path} is not an unencrypted OpenSSH key, as Flower reads it", "f2ed certs makes one")
    if not isinstance(key, EllipticCurvePrivateKey):
        return failed(name, f"{path} is not a key on an elliptic curve of NIST", "f2ed certs makes one")
    return ok(name, f"{path}; that the SuperLink knows it shows when the node connects")


def _rounds(state: Path, roster: Roster) -> Check:
    try:
        last = RoundMark(state / f"{roster.lineage}.rounds", roster.first_round, roster.skip).last()
    except F2edError as error:
        return attempt("rounds", error)
    if last < 0:
        return ok("rounds", f"none answered yet; the roster begins at round {roster.first_round}")
    return ok("rounds", f"the last one that was answered is {last}")
