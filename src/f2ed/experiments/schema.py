"""The experiment file: settings of a run, lists where several are meant, and what to do without the data."""

import tomllib
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, final

import msgspec

from f2ed.errors import ConfigError
from f2ed.simulation import Experiment

__all__ = ["File", "parse", "read"]

_SETTINGS = Experiment.__struct_fields__
_FRAME = ("title", "about", "fallback")


@final
class File(msgspec.Struct, frozen=True, kw_only=True):
    """An experiment file as written, with known keys only; what they hold is read when the grid is laid out."""

    path: str
    title: str
    about: str = ""
    settings: dict[str, Any]
    fallback: dict[str, Any] = {}
    """Settings that replace the others where the data can be neither found nor fetched."""

    def without_data(self) -> "File":
        """Return the file with the settings for that case in place; it may also state another `about`."""
        rest = {name: value for name, value in self.fallback.items() if name != "about"}
        about = str(self.fallback.get("about", self.about))
        return msgspec.structs.replace(self, about=about, settings=self.settings | rest, fallback={})


def read(path: Path) -> File:
    """Read an experiment file; raise `ConfigError` with the path in the file if it holds an unknown key."""
    try:
        content = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as missing:
        reason = missing.strerror if isinstance(missing, OSError) else "it is no text in UTF-8"
        raise ConfigError(f"{path} cannot be read: {reason}") from None
    return parse(content, str(path))


def parse(content: str, path: str) -> File:
    """Read the text of an experiment file."""
    try:
        found = tomllib.loads(content)
    except tomllib.TOMLDecodeError as wrong:
        raise ConfigError(f"{path} is no TOML: {wrong}") from None
    fallback = found.get("fallback", {})
    if not isinstance(fallback, Mapping):
        raise ConfigError(f"{path}: fallback: found {fallback!r}; wanted a table of settings")
    _check_keys(found, (*_FRAME, *_SETTINGS), path, "")
    _check_keys(fallback, ("about", *_SETTINGS), path, "fallback.")
    for name in ("title", "about"):
        if not isinstance(found.get(name, ""), str):
            raise ConfigError(f"{path}: {name}: found {found[name]!r}; wanted text in quotation marks")
    return File(
        path=path,
        title=found.get("title") or Path(path).stem,
        about=found.get("about", ""),
        settings={name: value for name, value in found.items() if name not in _FRAME},
        fallback=dict(fallback),
    )


def _check_keys(found: Mapping[str, Any], known: tuple[str, ...], path: str, prefix: str) -> None:
    for name in found:
        if name not in known:
            near = get_close_matches(name, known, 1)
            hint = f"did you mean {near[0]}?" if near else f"there are: {', '.join(known)}"
            raise ConfigError(f"{path}: {prefix}{name}: there is no such setting; {hint}")
