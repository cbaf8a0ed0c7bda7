"""The process that runs an app for one message, in place of `flwr-clientapp`.

    python -P -m f2ed.flower.app_process ADDRESS PARENT-PID

It reads the task's token from its input, where other users cannot see it, announces the SHA-256 of the app as F2ED_APP,
and sends no text of an exception: it may quote data. `f2ed.flower.fork_server` forks such processes.
"""

import hashlib
import os
import sys
from pathlib import Path
from typing import Any

from flwr.app import Error
from flwr.cli.install import install_from_fab
from flwr.common.config import get_project_dir
from flwr.supernode.runtime import run_clientapp

from f2ed.core.errors import Refusal
from f2ed.deployment.dumps import forbid_dumps
from f2ed.deployment.running_app import APP
from f2ed.flower.replaced import replace

__all__ = ["main", "prepare"]

_FAILED = "the app failed on this node; the reason is in its own log"


def main() -> None:
    """Run one task."""
    forbid_dumps()  # Apps have one user: what one leaves running must not read the next.
    address, parent = sys.argv[1:]
    token = sys.stdin.readline().strip()
    if not token:
        sys.exit("f2ed: the executor named no task")
    prepare()
    run_clientapp.run_clientapp(
        runtime_api_address=address,
        token=token,
        insecure=True,  # Over loopback.
        parent_pid=int(parent),
        runtime_dependency_install=False,
    )


def prepare() -> None:
    """Put our own functions into Flower's."""
    replace(run_clientapp, "install_from_fab", install)
    replace(run_clientapp, "get_project_dir", _only_installed)
    replace(run_clientapp, "Error", silent)


def install(content: bytes, **_options: Any) -> Path:
    """Unpack an app where no other is, and announce which one it is."""
    apps = Path(os.environ["FLWR_HOME"]) / "apps"
    if apps.exists():
        raise Refusal(f"{apps} holds an app already; each app is unpacked into a folder of its own")
    os.environ[APP] = hashlib.sha256(content).hexdigest()
    installed: Path = install_from_fab(content, skip_prompt=True)
    return installed


def silent(code: int, reason: str | None = None) -> Error:  # noqa: ARG001  the reason may quote data
    """Return an error without its text."""
    return Error(code, _FAILED)


def _only_installed(*names: str) -> Path:
    """Return the folder that code is loaded from, which must be the one that was just installed."""
    folder: Path = get_project_dir(*names)
    apps = Path(os.environ["FLWR_HOME"]) / "apps"
    if folder.resolve().parent != apps.resolve() or [folder.name] != [each.name for each in apps.iterdir()]:
        raise Refusal(f"the run names the folder {folder}, which is not where its app was unpacked")
    return folder


if __name__ == "__main__":
    main()
