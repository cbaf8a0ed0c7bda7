"""Your own code, by import path: `"package.module:name"`."""

import hashlib
import importlib
import inspect
import sys
from pathlib import Path
from typing import Any

from f2ed.core.errors import ConfigError

__all__ = ["folders", "imported", "path_of", "source_digest", "with_folder"]

_GIVEN: dict[str, Any] = {}
"""What was given by value in this process and cannot be found by its path, as in a notebook."""


_FOLDERS: dict[Path, None] = {}


def imported(path: str) -> Any:
    """Import a name, or return what was given under this path by value."""
    if path in _GIVEN:
        return _GIVEN[path]
    module, _, name = path.partition(":")
    if not module or not name:
        raise ConfigError(f'{path!r} is not an import path; write "package.module:name"')
    try:
        found: Any = importlib.import_module(module)
    except ImportError as missing:
        raise ConfigError(
            f"{path} cannot be imported: {missing}; put the module beside the experiment file, or install it"
        ) from missing
    for part in name.split("."):
        if not hasattr(found, part):
            raise ConfigError(f"the module {module} has no {name}; check the import path {path}")
        found = getattr(found, part)
    return found


def with_folder(folder: Path) -> None:
    """Let modules be imported from a folder, such as that of the experiment file, as Python does for a script."""
    if (place := str(folder.resolve())) not in sys.path:
        sys.path.insert(0, place)
    _FOLDERS.setdefault(Path(place))


def folders() -> tuple[Path, ...]:
    """Return these folders, where files that were named without one are looked for too."""
    return tuple(_FOLDERS)


def path_of(thing: Any) -> str:
    """Return the import path of a class or function; remember it if it cannot be imported from there."""
    path = f"{thing.__module__}:{thing.__qualname__}"
    try:
        known = imported(path)
    except ConfigError:
        known = None
    if known is not thing:
        _GIVEN[path] = thing
    return path


def source_digest(path: str) -> str:
    """Return SHA-256 of the source file behind an import path, or of the code itself where there is no file."""
    thing = imported(path)
    try:
        return hashlib.sha256(Path(inspect.getfile(thing)).read_bytes()).hexdigest()
    except (TypeError, OSError):
        pass
    try:
        return hashlib.sha256(inspect.getsource(thing).encode()).hexdigest()
    except (TypeError, OSError):
        return ""
