"""`f2ed app`: what the authority signs about an app."""

import sys
from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from f2ed.core.errors import ConfigError
from f2ed.deployment.apps import Bundle, describe

__all__ = ["app", "read_app"]

app = App(name="app", help="Show what the authority signs about an app.")


@app.command(name="hash")
def hash_(
    path: Annotated[Path, Parameter(help="The folder of a Flower app, or a bundle that flwr build made.")],
) -> None:
    """Print the SHA-256 of an app's bundle. Building it gives the same bytes on every machine.

    Example: f2ed app hash examples/04_flower
    """
    found = read_app(path).app
    sys.stdout.write(f"{found.sha256.hex()}  {found.name}\n")


def read_app(path: Path) -> Bundle:
    """Return what is to be signed for a folder, which is built, or for a bundle."""
    if path.is_dir():
        from f2ed.flower.bundle import build  # noqa: PLC0415  an authority that is given bundles needs no Flower

        return describe(build(path))
    try:
        return describe(path.read_bytes())
    except OSError as error:
        raise ConfigError(f"the app {path} cannot be read: {error.strerror}") from None
