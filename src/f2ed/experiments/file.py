"""The experiment file: the settings of a run, with lists that span a grid, and a fallback for missing data.

A file may have parts, each of which changes some settings; its runs are those of all parts in order. It may `define`
names for tables that several parts use: after `define.estimator.mine = {…}`, a part can state `estimator = ["mine"]`.
`base` names another file, relative to this one, that provides settings and names which this file does not state.
"""

import tomllib
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any, final

import msgspec

from f2ed.core.errors import ConfigError
from f2ed.core.shipped import shipped
from f2ed.simulation import Experiment
from f2ed.simulation.config import PLUGINS

__all__ = ["ExperimentFile", "find", "parse", "read"]

_SETTINGS = Experiment.__struct_fields__
_FRAME = ("title", "about", "fallback", "define", "part", "base", "quick")


@final
class ExperimentFile(msgspec.Struct, frozen=True, kw_only=True):
    """An experiment file as written, with known keys only; their values are checked when the grid is expanded."""

    path: str
    title: str
    about: str = ""
    settings: dict[str, Any]
    fallback: dict[str, Any] = {}
    """Settings that replace the others if the data can be neither found nor downloaded."""
    parts: tuple[tuple[str, dict[str, Any]], ...] = ()
    """Names, and the settings that each changes; a run that is in two parts is done once."""
    define: dict[str, dict[str, Any]] = {}
    """By setting, names and the tables they stand for."""
    quick: dict[str, Any] = {}
    """Settings of a version that takes a few minutes without a GPU."""

    def quickly(self) -> "ExperimentFile":
        """Return the file with the settings of its quick version, without parts."""
        if not self.quick:
            raise ConfigError(f"{self.path} has no quick version; add one under [quick]")
        changed = ", ".join(f"{name} {_brief(value)}" for name, value in self.quick.items())
        about = f"Quick version, not the setting of the full one: {changed}."
        return msgspec.structs.replace(self, about=about, settings=self.settings | self.quick, parts=())

    def changed(self, **settings: Any) -> "ExperimentFile":
        """Return the file with these settings in all parts."""
        parts = tuple(
            (name, part | {key: settings[key] for key in settings.keys() & part}) for name, part in self.parts
        )
        rest = {name: value for name, value in self.fallback.items() if name not in settings}
        return msgspec.structs.replace(self, settings=self.settings | settings, fallback=rest, parts=parts)

    def only_parts(self, names: Sequence[str]) -> "ExperimentFile":
        """Return the file with only these parts, or all if none is named."""
        known = [name for name, _ in self.parts]
        for name in names:
            if name not in known:
                there = f"choose from: {', '.join(known)}" if known else "the file has no parts"
                raise ConfigError(f"{self.path}: unknown part {name}; {there}")
        kept = tuple(part for part in self.parts if part[0] in names or not names)
        return msgspec.structs.replace(self, parts=kept)

    def without_data(self) -> "ExperimentFile":
        """Return the file with its fallback applied, which may also state another `about`."""
        rest = {name: value for name, value in self.fallback.items() if name != "about"}
        about = str(self.fallback.get("about", self.about))
        return msgspec.structs.replace(self, about=about, settings=self.settings | rest, fallback={})


def _brief(value: Any) -> str:
    """Return a setting in a few words."""
    if isinstance(value, Mapping):
        label = value.get("label") or value.get("kind")
        return str(label) if label else " ".join(f"{name} {_brief(inner)}" for name, inner in value.items())
    if isinstance(value, list):
        return " / ".join(map(_brief, value))
    return str(value).lower() if isinstance(value, bool) else str(value)


def find(wanted: Path | str) -> Path:
    """Return the path if it is a file, or else the shipped file of that name."""
    wanted = Path(wanted)
    if wanted.is_file():
        return wanted
    files = shipped()
    if str(wanted) in files:
        return files[str(wanted)]
    near = get_close_matches(wanted.stem, files, 3, 0.5)
    hint = f"did you mean {' or '.join(near)}? " if near else ""
    raise ConfigError(
        f"{wanted} is neither a file nor a shipped experiment; {hint}`f2ed list experiments` shows all of them"
    )


def read(path: Path | str) -> ExperimentFile:
    """Read an experiment file; raise `ConfigError` with the place in the file of an unknown key."""
    return _read(Path(path))


def _read(path: Path, *, based: bool = True) -> ExperimentFile:
    try:
        content = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as missing:
        reason = missing.strerror if isinstance(missing, OSError) else "it is not UTF-8 text"
        raise ConfigError(f"{path} cannot be read: {reason}") from None
    return parse(content, str(path), based=based)


def parse(content: str, path: str, *, based: bool = True) -> ExperimentFile:
    """Parse the text of an experiment file; a base may not have a base itself."""
    try:
        found = tomllib.loads(content)
    except tomllib.TOMLDecodeError as wrong:
        raise ConfigError(f"{path} is not valid TOML: {wrong}") from None
    fallback, quick = found.get("fallback", {}), found.get("quick", {})
    for name, table in (("fallback", fallback), ("quick", quick)):
        if not isinstance(table, Mapping):
            raise ConfigError(f"{path}: {name}: found {table!r}; expected a table of settings")
    _check_keys(found, (*_FRAME, *_SETTINGS), path, "")
    _check_keys(quick, _SETTINGS, path, "quick.")
    _check_keys(fallback, ("about", *_SETTINGS), path, "fallback.")
    parts, define = _parts(found.get("part", []), path), _defined(found.get("define", {}), path)
    if parts and fallback:
        raise ConfigError(f"{path}: fallback: not available in a file with parts; state other data in a part instead")
    for name in ("title", "about", "base"):
        if not isinstance(found.get(name, ""), str):
            raise ConfigError(f"{path}: {name}: found {found[name]!r}; expected a quoted string")
    file = ExperimentFile(
        path=path,
        title=found.get("title") or Path(path).stem,
        about=found.get("about", ""),
        settings={name: value for name, value in found.items() if name not in _FRAME},
        fallback=dict(fallback),
        parts=parts,
        define=define,
        quick=dict(quick),
    )
    if "base" not in found:
        return file
    if not based:
        raise ConfigError(f"{path}: base: a base file cannot have a base; state its settings here")
    return _based(file, _read(Path(path).parent / found["base"], based=False))


def _based(file: ExperimentFile, base: ExperimentFile) -> ExperimentFile:
    if base.parts or base.fallback:
        raise ConfigError(
            f"{file.path}: base: {base.path} has parts or a fallback of its own; state those in {file.path}"
        )
    define = {
        setting: base.define.get(setting, {}) | file.define.get(setting, {}) for setting in base.define | file.define
    }
    return msgspec.structs.replace(
        file, settings=base.settings | file.settings, define=define, quick=base.quick | file.quick
    )


def _parts(found: Any, path: str) -> tuple[tuple[str, dict[str, Any]], ...]:
    if not isinstance(found, list) or not all(isinstance(part, Mapping) for part in found):
        raise ConfigError(f"{path}: part: found {found!r}; expected tables, each starting with [[part]]")
    for index, part in enumerate(found):
        _check_keys(part, ("name", *_SETTINGS), path, f"part[{index}].")
        if not isinstance(part.get("name"), str):
            raise ConfigError(f"{path}: part[{index}].name: expected a quoted string, to choose the part by")
    names = [part["name"] for part in found]
    for name in names:
        if names.count(name) > 1:
            raise ConfigError(f"{path}: part: two parts are called {name}; give each its own name")
    return tuple((part["name"], {key: value for key, value in part.items() if key != "name"}) for part in found)


def _defined(found: Any, path: str) -> dict[str, dict[str, Any]]:
    if not isinstance(found, Mapping) or not all(isinstance(names, Mapping) for names in found.values()):
        raise ConfigError(
            f"{path}: define: found {found!r}; expected names by setting, as in define.estimator.mine = {{…}}"
        )
    _check_keys(found, tuple(PLUGINS), path, "define.")
    for setting, names in found.items():
        for name, table in names.items():
            if not isinstance(table, Mapping) or "kind" not in table:
                raise ConfigError(f"{path}: define.{setting}.{name}: found {table!r}; expected a table with a kind")
    return {setting: dict(names) for setting, names in found.items()}


def _check_keys(found: Mapping[str, Any], known: tuple[str, ...], path: str, prefix: str) -> None:
    for name in found:
        if name not in known:
            near = get_close_matches(name, known, 1)
            hint = f"did you mean {near[0]}?" if near else f"choose from: {', '.join(known)}"
            raise ConfigError(f"{path}: {prefix}{name}: unknown setting; {hint}")
