"""The command `f2ed`: one file per subcommand, loaded only when it is asked for."""

import sys

from f2ed.core.errors import F2edError, MissingExtra

__all__ = ["main"]


def main() -> None:
    """Run the command line; an error of ours ends in one clear sentence and a non-zero exit."""
    try:
        from f2ed.cli.app import app  # noqa: PLC0415  keeps the light core free of the command line's dependencies
    except ModuleNotFoundError as missing:
        sys.exit(f"f2ed: {MissingExtra('the command line', 'cli')} ({missing.name} is not there)")
    try:
        app()
    except F2edError as error:
        sys.exit(f"f2ed: {error}")
    except KeyboardInterrupt:
        sys.exit(130)
