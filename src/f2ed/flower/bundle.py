"""Building an app's bundle exactly as `flwr run` and `flwr build` do, so that everyone gets the same bytes."""

import warnings
from pathlib import Path

import click
from flwr.cli.build import build_fab_from_disk

from f2ed.core.errors import ConfigError

__all__ = ["build"]


def build(folder: Path) -> bytes:
    """Return the bundle of an app's folder: the same bytes on every machine, whatever the dates of the files."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # Of a package that Flower uses.
            content: bytes = build_fab_from_disk(folder)
    except (OSError, ValueError, click.ClickException) as error:
        raise ConfigError(f"{folder} is not a Flower app that can be built: {error}") from None
    return content
