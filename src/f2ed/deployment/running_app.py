"""Which app asks: the SHA-256 of its bundle, as the launcher states it to the process that runs the app."""

from collections.abc import Mapping

from f2ed.core.errors import Refusal
from f2ed.deployment.apps import check_app
from f2ed.deployment.roster import Roster

__all__ = ["APP", "running_app"]

APP = "F2ED_APP"
"""The environment variable by which `f2ed node` states it, in hexadecimal."""


def running_app(environ: Mapping[str, str], roster: Roster) -> bytes:
    """Return the SHA-256 of the app that runs, or refuse one that the roster does not approve.

    It is b"" where it is not known: in a node that was not started by the launcher, if the roster accepts that.
    """
    stated = environ.get(APP, "")
    if not stated and "unpinned-app" in roster.accepted:
        return b""
    try:
        found = bytes.fromhex(stated)
    except ValueError:
        found = b""
    if len(found) != 32:
        raise Refusal(
            "this node cannot tell which app it runs, and the roster approves certain apps alone; start it with f2ed "
            "node"
        )
    check_app(roster, found)
    return found
