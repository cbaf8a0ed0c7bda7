"""A failure in code of your own is one sentence that names the code, its line and the error."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from traceback import extract_tb
from typing import Any

from f2ed.core.errors import F2edError, PluginError, first_line
from f2ed.learning.losses import ImportedLoss
from f2ed.learning.models import Imported
from f2ed.simulation.own import is_own

__all__ = ["own_code"]


@contextmanager
def own_code(**settings: Any) -> Iterator[None]:
    """Turn an error of the code inside into `PluginError`, if one of these settings is a plug-in of your own."""
    try:
        yield
    except F2edError:
        raise
    except Exception as error:
        for setting, value in settings.items():
            if (found := _described(value, setting)) is not None:
                name, module = found
                said = f"{type(error).__name__}: {first_line(error)}"
                raise PluginError(f"{setting}: {name} failed{_place(error, module)}: {said}") from error
        raise


def _described(value: Any, setting: str) -> tuple[str, str] | None:
    """Return the name and the module of a plug-in of your own; None for any other."""
    if isinstance(value, Imported | ImportedLoss):
        return value.factory, value.factory.partition(":")[0]
    return (type(value).__name__, type(value).__module__) if is_own(value, setting) else None


def _place(error: Exception, module: str) -> str:
    """Return the last line of the plug-in's own file that was running; nothing if there is none."""
    file = getattr(sys.modules.get(module), "__file__", None)
    lines = [frame.lineno for frame in extract_tb(error.__traceback__) if frame.filename == file]
    return f" in {Path(str(file)).name}, line {lines[-1]}" if lines else ""
