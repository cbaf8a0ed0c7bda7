"""Checks of a roster: its signature, its last day, its apps, and the serials that a node follows."""

from collections.abc import Sequence
from datetime import UTC, date, datetime
from pathlib import Path

from f2ed.core.errors import F2edError
from f2ed.deployment.apps import is_unpinned
from f2ed.deployment.doctor.checks import Check, attempt, failed, ok, warning
from f2ed.deployment.doctor.connection import SOON
from f2ed.deployment.keyfiles import read_public
from f2ed.deployment.pin import Pin
from f2ed.deployment.roster import Roster, read_serials

__all__ = ["newest", "roster_checks"]


def roster_checks(shown: Sequence[Roster] | F2edError, *, now: datetime, state: Path | None = None) -> list[Check]:
    """Judge the serials that were read, and whether a node with this folder of state would follow them."""
    if isinstance(shown, F2edError):
        return [attempt("roster", shown)]
    roster = shown[-1]
    found = f"{roster.name!r}, serial {roster.serial}, signed by the authority"
    checks = [_last_day(roster, found, now=now)]
    if state is not None:
        checks.append(_followed(shown, state, now=now))
    checks.append(_approved(roster))
    return checks


def newest(path: Path, authority: Path) -> tuple[Roster, ...] | F2edError:
    """Read all serials that the authority signed, the newest last; or return why that fails."""
    try:
        return tuple(sorted(read_serials(path, read_public(authority)), key=lambda roster: roster.serial))
    except F2edError as error:
        return error


def _last_day(roster: Roster, found: str, *, now: datetime) -> Check:
    if not roster.expires:
        return ok("roster", f"{found}, without an expiry")
    left = (date.fromisoformat(roster.expires) - now.astimezone(UTC).date()).days
    again = "the authority signs again (f2ed roster sign) and gives everyone the file"
    if left < 0:
        return failed("roster", f"{found}, expired on {roster.expires}", again)
    if left < SOON:
        return warning("roster", f"{found}, expires in {left} days, on {roster.expires}", again)
    return ok("roster", f"{found}, until {roster.expires}")


def _followed(shown: Sequence[Roster], state: Path, *, now: datetime) -> Check:
    try:
        pin = Pin(state / f"{shown[0].lineage}.pin")
        pin.preview(shown, day=now.astimezone(UTC).date().isoformat())
    except F2edError as error:
        return attempt("pinned serial", error, "see What each refusal means, in docs/deploy_flower.md")
    except OSError as error:
        return attempt("pinned serial", error, "run this as the node's user")
    return ok("pinned serial", f"this node follows serial {shown[-1].serial}")


def _approved(roster: Roster) -> Check:
    if is_unpinned(roster):
        return warning("apps", "the roster accepts ANY APP", "the authority signs with --app, and without this risk")
    if not roster.apps:
        return failed("apps", "the roster approves no app", "the authority signs with --app")
    return ok("apps", ", ".join(f"{app.name} ({app.sha256.hex()[:16]}…)" for app in roster.apps))
