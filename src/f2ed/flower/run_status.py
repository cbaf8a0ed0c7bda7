"""Whether a run has completed: `flwr run` ends with status 0 where the app failed, too."""

import json
import subprocess
import time
from collections.abc import Mapping, Sequence

from f2ed.core.errors import PeerError

__all__ = ["check_run", "check_status"]

_PATIENCE = 60.0
_SILENT = "No heartbeat"
_KILLED = "its ServerApp was killed, or the SuperLink restarted; submit the app again, it continues from its checkpoint"


def check_run(command: Sequence[str], number: str, environment: Mapping[str, str]) -> None:
    """Raise `PeerError` unless a run has completed. `command` lists the runs of its SuperLink."""
    words = [*command, "--run-id", number, "--format", "json"]
    until = time.monotonic() + _PATIENCE
    while True:
        listed = subprocess.run(words, capture_output=True, text=True, check=False, env=environment)  # noqa: S603
        if check_status(listed.stdout, number):
            return
        if time.monotonic() > until:
            raise PeerError(f"run {number} has not finished {_PATIENCE:g} s after its log ended")
        time.sleep(0.5)


def check_status(listed: str, number: str) -> bool:
    """Return whether a run has completed, from what `flwr list` says; raise `PeerError` if it failed."""
    try:
        (run,) = json.loads(listed)["runs"]
        status, details = run["status"], run.get("status-details", "")
    except (ValueError, KeyError, TypeError):
        raise PeerError(f"the status of run {number} is not known: {listed.strip()[-200:]}") from None
    if status == "finished:completed":
        return True
    if status.startswith("finished"):
        if details.startswith(_SILENT):
            details = f"{details}: {_KILLED}"
        raise PeerError(f"run {number} ended as {status.partition(':')[2]}; {details or 'the reason is in its log'}")
    return False
