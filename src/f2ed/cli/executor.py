"""`f2ed executor`: runs the apps of a node that another user started."""

import os
import time
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from f2ed.core.errors import ConfigError
from f2ed.flower.executor import execute
from f2ed.flower.preload import AUTO, PRELOAD_HELP, modules_to_preload
from f2ed.flower.processes import HOST

__all__ = ["executor"]

_PATIENCE = 60.0


def executor(
    *,
    secret: Annotated[Path, Parameter(help="The file that f2ed node --app-secret writes.")],
    port: Annotated[int, Parameter(help="The port of f2ed node.")] = 9094,
    preload: Annotated[str, Parameter(help=PRELOAD_HELP)] = AUTO,
) -> None:
    """Run the apps of a node, as a user who cannot read its key.

    The node is started with --app-secret, by another user. Apps get the environment of this command, so start it
    without secrets.

    Example: f2ed executor --secret /run/f2ed/secret
    """
    modules_to_preload(preload)  # Refuse an unknown one at once, not after the wait for the secret.
    os.environ |= {"FLWR_TELEMETRY_ENABLED": "0", "FLWR_DISABLE_UPDATE_CHECK": "1"}
    execute(f"{HOST}:{port}", preload, secret=_read(secret))


def _read(path: Path) -> bytes:
    """Wait for the node's secret: both may be started at the same time."""
    until = time.monotonic() + _PATIENCE
    while True:
        try:
            return path.read_bytes()
        except FileNotFoundError:
            if time.monotonic() > until:
                raise ConfigError(f"{path} did not appear; is f2ed node --app-secret {path} running?") from None
            time.sleep(0.5)
        except OSError as error:
            raise ConfigError(f"the secret {path} cannot be read: {error.strerror}") from None
