"""What --preload says: which modules the processes of apps find imported (see `f2ed.flower.fork_server`)."""

import sys
from importlib.util import find_spec

from f2ed.core.errors import ConfigError

__all__ = ["AUTO", "PRELOAD_HELP", "modules_to_preload"]

AUTO, _NONE = "auto", "none"
PRELOAD_HELP = (
    "Modules that the processes of apps find imported, such as torch,transformers; auto: torch, where it is installed; "
    "none: each process starts its own Python."
)
"""Of the option, for the commands that have it."""


def modules_to_preload(text: str) -> list[str] | None:
    """Return the modules to import beside f2ed, Flower and numpy; None to start a new Python each time."""
    if text == _NONE or (text == AUTO and sys.platform != "linux"):
        return None
    if text == AUTO:
        return ["torch"] if find_spec("torch") else []
    if sys.platform != "linux":
        raise ConfigError("processes are forked on Linux only; leave out --preload")
    names = [name.strip() for name in text.split(",")]
    for name in names:
        parts = name.split(".")
        if not all(map(str.isidentifier, parts)) or find_spec(parts[0]) is None:
            raise ConfigError(
                f"--preload names {name!r}, which is not installed; give names of modules, such as torch,transformers, "
                f"or {_NONE}"
            )
    return names
