"""A check: what was looked at, what was found, and what to do about it."""

from collections.abc import Iterable
from pathlib import Path
from typing import Literal, NamedTuple

from f2ed.core.errors import F2edError

__all__ = ["Check", "Status", "attempt", "failed", "healthy", "ok", "warning"]

Status = Literal["ok", "warning", "failed"]


class Check(NamedTuple):
    """One line of a doctor's report."""

    name: str
    status: Status
    found: str
    remedy: str = ""
    """What to do; empty where nothing has to be done."""


def ok(name: str, found: str) -> Check:
    """Return a check that found nothing wrong."""
    return Check(name, "ok", found)


def warning(name: str, found: str, remedy: str) -> Check:
    """Return a check that found what will become a problem, or could not look."""
    return Check(name, "warning", found, remedy)


def failed(name: str, found: str, remedy: str) -> Check:
    """Return a check that found a problem."""
    return Check(name, "failed", found, remedy)


def attempt(name: str, error: F2edError | OSError, remedy: str = "") -> Check:
    """Return the check that failed with an error; ours say themselves what to do."""
    if isinstance(error, F2edError):
        found, _, advice = str(error).partition("; ")
        return failed(name, found, advice or remedy)
    where = f"{Path(str(error.filename))}: " if error.filename else ""
    return failed(name, f"{where}{error.strerror or error}", remedy)


def healthy(checks: Iterable[Check]) -> bool:
    """Return whether no check failed; warnings are not failures."""
    return all(check.status != "failed" for check in checks)
