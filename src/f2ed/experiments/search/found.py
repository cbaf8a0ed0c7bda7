"""Save what a search found: the attack as an experiment file that repeats it, and the records of its run."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from f2ed.core.errors import ConfigError
from f2ed.core.files import write_atomic
from f2ed.experiments.file import parse
from f2ed.experiments.grid import expand
from f2ed.records import RunLog, read
from f2ed.records.schema import lines
from f2ed.simulation import Experiment
from f2ed.simulation.header import digest
from f2ed.simulation.own import plain

__all__ = ["experiment_text", "recorded", "save", "slug"]


def slug(name: str) -> str:
    """Return a name for files."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def save(folder: Path, name: str, experiment: Experiment, log: RunLog, *, about: str) -> Path:
    """Write `name.toml` and `name.jsonl`; return the path of the former."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{slug(name)}.toml"
    text = experiment_text(experiment, title=name, about=about, path=str(path))
    write_atomic(path, text.encode(), mode=0o644)
    write_atomic(path.with_suffix(".jsonl"), lines(log), mode=0o644)
    return path


def recorded(folder: Path, name: str, experiment: Experiment) -> RunLog | None:
    """Return the finished run of these settings, if it was saved."""
    path = folder / f"{slug(name)}.jsonl"
    if not path.exists():
        return None
    log = read(path)
    return log if log.finished and log.header.digest == digest(experiment) else None


def experiment_text(experiment: Experiment, *, title: str, about: str, path: str) -> str:
    """Return an experiment file with exactly these settings; those that have their default are left out."""
    defaults = {field.name: field.default for field in msgspec.structs.fields(experiment)}
    stated = {
        name: value
        for name, value in plain(experiment).items()
        if value is not None and getattr(experiment, name) != defaults[name]
    }
    text = "".join(f"{name} = {_value(value)}\n" for name, value in {"title": title, "about": about, **stated}.items())
    (cell,) = expand(parse(text, path))
    if digest(cell.experiment) != digest(experiment):
        raise ConfigError(f"{path} would not repeat the run: these settings cannot be stated in an experiment file")
    return text


def _value(value: Any) -> str:
    """Return a value as TOML."""
    match value:
        case Mapping():
            inner = ", ".join(f"{_key(key)} = {_value(each)}" for key, each in value.items() if each is not None)
            return f"{{ {inner} }}" if inner else "{}"
        case list() | tuple():
            return f"[{', '.join(map(_value, value))}]"
        case bool():
            return str(value).lower()
        case str():
            return json.dumps(value, ensure_ascii=False)
        case _:
            return repr(value)


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else json.dumps(name)
