"""What a server needs to lead rounds, looked at before it starts."""

from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from f2ed.core.errors import F2edError
from f2ed.deployment.doctor.checks import Check, attempt, failed, ok, warning
from f2ed.deployment.doctor.connection import connection_checks, contact
from f2ed.deployment.doctor.machine import (
    certificate_check,
    clock_check,
    folder_check,
    pair_check,
    runner_check,
    version_check,
)
from f2ed.deployment.doctor.rosters import newest, roster_checks
from f2ed.deployment.keyfiles import read_private
from f2ed.deployment.roster import Roster
from f2ed.deployment.run_lock import read_state
from f2ed.protocol.secagg import public_key

__all__ = ["ServerFiles", "server_checks"]


class ServerFiles(NamedTuple):
    """What a server is started with."""

    roster: Path
    authority: Path
    ca: Path
    certificate: Path
    key: Path
    superlink: str = ""
    """Its address, if it is running."""
    proxy: str = ""
    """Where nodes connect, if that is another address."""
    database: Path | None = None
    records: Path | None = None
    checkpoint: Path | None = None
    log_key: Path | None = None
    """The private key of the server's log."""


def server_checks(files: ServerFiles, *, timeout: float = 5.0) -> list[Check]:
    """Return all checks of a server; none of them changes anything."""
    now = datetime.now(UTC)
    shown = newest(files.roster, files.authority)
    checks = [
        version_check(),
        clock_check(),
        certificate_check("CA", files.ca, now=now),
        certificate_check("certificate", files.certificate, now=now),
        pair_check(files.ca, files.certificate, files.key),
        *roster_checks(shown, now=now),
    ]
    for address, what in ((files.superlink, "SuperLink"), (files.proxy, "proxy")):
        if address:
            found = connection_checks(address, contact(address, files.ca, timeout=timeout), now=now)
            # Both run on one machine: their clock is no other.
            checks += [each._replace(name=f"{what}: {each.name.split()[0]}") for each in found if each.name != "clock"]
    if files.superlink:
        checks.append(runner_check(files.superlink))
    checks += _folders(files)
    if not isinstance(shown, F2edError):
        checks += _log_key(files.log_key, shown[-1])
    if files.records is not None:
        checks.append(_run(files.records))
    return checks


def _folders(files: ServerFiles) -> list[Check]:
    checks = []
    if files.database is not None:
        size = sum(each.stat().st_size for each in files.database.parent.glob(f"{files.database.name}*"))
        checks.append(folder_check("database", files.database.parent, growing=size))
    for name, path in (("records", files.records), ("checkpoint", files.checkpoint)):
        if path is not None:
            checks.append(folder_check(name, path.parent))
    return checks


def _log_key(path: Path | None, roster: Roster) -> list[Check]:
    name = "log key"
    if path is None:
        if not roster.server:
            return []
        return [failed(name, "the roster names a key of the server's log, and none was given", "name it: --log-key")]
    try:
        public = public_key(read_private(path))
    except F2edError as error:
        return [attempt(name, error)]
    if public != roster.server:
        return [failed(name, f"{path} is not the key that the roster names", "the authority: f2ed roster server, sign")]
    return [ok(name, f"{path} is the key that the roster names")]


def _run(records: Path) -> Check:
    try:
        state, held = read_state(records)
    except F2edError as error:
        return attempt("run", error)
    if state is None or not held:
        return ok("run", "none is under way with these records")
    if state.waiting:
        return warning("run", f"waits before round {state.round}: {state.waiting}", "start the nodes that it names")
    return ok("run", f"run {state.run} is in round {state.round}")
