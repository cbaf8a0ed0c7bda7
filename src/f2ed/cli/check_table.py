"""Prints checks, one line each, for people or for programs."""

import sys
from collections.abc import Sequence

import msgspec
from rich.console import Console

from f2ed.deployment.doctor import Check, healthy

__all__ = ["report_checks"]

_STYLES = {"ok": "green", "warning": "yellow", "failed": "bold red"}


def report_checks(checks: Sequence[Check], *, json: bool) -> None:
    """Print checks; end with status 1 if one failed."""
    if json:
        found = {"healthy": healthy(checks), "checks": [check._asdict() for check in checks]}
        sys.stdout.write(msgspec.json.encode(found).decode() + "\n")
    else:
        console = Console(highlight=False, markup=False, soft_wrap=True)
        width = max(len(check.name) for check in checks)
        for check in checks:
            remedy = f" → {check.remedy}" if check.remedy else ""
            console.print(f"{check.status:<8}{check.name:<{width}}  {check.found}{remedy}", style=_STYLES[check.status])
    if not healthy(checks):
        sys.exit(1)
