"""The command `f2ed`: one file per subcommand, loaded only when it is called."""

import sys

from f2ed.core.errors import F2edError, MissingExtra

__all__ = ["main"]

_EXTRAS = {
    "torch": "train",
    "sklearn": "train",
    "flwr": "flower",
    "jinja2": "report",
    "plotly": "report",
    "matplotlib": "report",
    "pyarrow": "parquet",
    "tensorboard": "tensorboard",
    "mlflow": "mlflow",
    "ray": "ray",
    "wandb": "wandb",
    "dp_accounting": "dp",
    "optuna": "search",
}
"""Optional packages, and the extra of f2ed that installs them."""


def main() -> None:
    """Run the command line; errors end with one sentence and a non-zero exit status.

    Whatever takes time to import is imported in here, so that Ctrl-C never shows a traceback.
    """
    try:
        _main()
    except KeyboardInterrupt:
        print("f2ed: interrupted", file=sys.stderr)  # noqa: T201  nothing that could print it nicely may be loaded yet
        sys.exit(130)


def _main() -> None:
    try:
        from f2ed.cli.app import app  # noqa: PLC0415  keeps the light core free of the command line's dependencies
    except ModuleNotFoundError as missing:
        sys.exit(f"f2ed: {MissingExtra('the command line', 'cli')} ({missing.name} is not installed)")
    try:
        app(sys.argv[1:])
    except F2edError as error:
        sys.exit(f"f2ed: {error}")
    except ImportError as error:
        sys.exit(f"f2ed: {_named(error)}")
    except OSError as error:  # A file in the way, one that may not be written, a full disk.
        if error.filename is None or error.strerror is None:
            raise
        sys.exit(f"f2ed: {error.filename} cannot be used: {error.strerror}")


def _named(error: BaseException) -> F2edError:
    """Return the error of ours behind a failed import of a command; raise anything unexpected."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, F2edError):
            return cause
        if isinstance(cause, ModuleNotFoundError) and (extra := _EXTRAS.get((cause.name or "").partition(".")[0])):
            return MissingExtra(" ".join(["f2ed", *sys.argv[1:2]]), extra)
        cause = cause.__cause__
    raise error
