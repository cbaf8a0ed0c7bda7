"""Expand a file into its runs: every list of settings is an axis of a grid, and each cell is one run."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple, final, get_args

import msgspec

from f2ed.core.errors import ConfigError
from f2ed.core.imports import with_folder
from f2ed.experiments.file import ExperimentFile
from f2ed.learning import AnyDataset
from f2ed.simulation import Experiment, experiment
from f2ed.simulation.header import digest
from f2ed.simulation.validate import check

__all__ = ["Cell", "expand"]


@final
class Cell(msgspec.Struct, frozen=True, kw_only=True):
    """One run of a file."""

    name: str
    arm: dict[str, str]
    """The settings in which it differs from the other runs, with labels."""
    experiment: Experiment
    about: str
    """The description in the file."""
    part: str = ""
    """The part of the file it is in; "" in a file without parts."""
    where: dict[str, str]
    """Where the settings of the axes are in the file, for errors: "estimator" is at "estimator[1]"."""

    @property
    def slug(self) -> str:
        """The name of its files: readable, and unique to its settings."""
        readable = re.sub(r"[^a-z0-9]+", "-", self.name.lower()).strip("-")
        return f"{readable[:80]}-{digest(self.experiment)[:8]}"


_WITH_A_LABEL = {each.__struct_config__.tag for each in get_args(AnyDataset) if "label" in each.__struct_fields__}


class _Choice(NamedTuple):
    where: str
    label: str
    value: Any


def expand(file: ExperimentFile) -> list[Cell]:
    """Return the runs in the order of the file, the last list varying fastest; refuse invalid settings.

    The parts come in order, and a run of an earlier part is not repeated.
    """
    every: dict[str, Cell] = {}
    if Path(file.path).is_file():
        with_folder(Path(file.path).parent)
    for index, (part, changes) in enumerate(file.parts or (("", {}),)):
        prefix = f"part[{index}]." if file.parts else ""
        here = msgspec.structs.replace(file, settings=_resolved(file.settings | changes, file))
        places = dict.fromkeys(changes, prefix)
        axes = dict(_axes(here, places))
        cells = [_cell(here, part, dict(zip(axes, chosen, strict=True))) for chosen in product(*axes.values())]
        digests = Counter(digest(cell.experiment) for cell in cells)
        for cell in cells:
            if digests[digest(cell.experiment)] > 1:
                raise ConfigError(f"{file.path}: {cell.name}: two runs have the same settings; state each only once")
            every.setdefault(digest(cell.experiment), cell)
    return list(every.values())


def _resolved(settings: Mapping[str, Any], file: ExperimentFile) -> dict[str, Any]:
    """Replace names that the file defines by their tables, with the name as the label."""

    def meant(setting: str, value: Any) -> Any:
        table = file.define.get(setting, {}).get(value) if isinstance(value, str) else None
        return value if table is None else {"label": value, **table}

    return {
        name: [meant(name, each) for each in value] if isinstance(value, list) else meant(name, value)
        for name, value in settings.items()
    }


def _axes(file: ExperimentFile, places: Mapping[str, str]) -> Iterator[tuple[tuple[str, ...], list[_Choice]]]:
    for name, value in file.settings.items():
        place = places.get(name, "") + name
        if isinstance(value, list):
            yield (name,), _choices(file, place, value)
        elif name == "training" and isinstance(value, Mapping):
            for inner, several in value.items():
                if isinstance(several, list):
                    yield (name, inner), _choices(file, f"{place}.{inner}", several)


def _choices(file: ExperimentFile, name: str, values: list[Any]) -> list[_Choice]:
    if not values:
        raise ConfigError(f"{file.path}: {name}: the list is empty; state at least one value")
    kinds = Counter(_kind(value) for value in values)
    found = []
    for index, value in enumerate(values):
        label = _kind(value)
        stated = dict(value) if isinstance(value, Mapping) else value
        if isinstance(stated, dict):
            rest = {key: inner for key, inner in stated.items() if key not in {"kind", "label"}}
            if kinds[label] > 1 and rest:
                label += f"({', '.join(f'{key}={_kind(inner)}' for key, inner in rest.items())})"
            if _names_the_run(name.rpartition(".")[2], stated):
                label = str(stated.pop("label", label))
        found.append(_Choice(f"{name}[{index}]", label, stated))
    return found


def _kind(value: Any) -> str:
    if isinstance(value, Mapping):
        own = value.get("kind") == "imported"
        return str(value.get("factory", "?")).rpartition(":")[2] if own else str(value.get("kind", "?"))
    return str(value).lower() if isinstance(value, bool) else str(value)


def _names_the_run(name: str, table: Mapping[str, Any]) -> bool:
    """Return whether `label` in a table is what the run is called, and not a setting: the column of a table of data."""
    return name != "training" and not (name == "data" and table.get("kind") in _WITH_A_LABEL)


def _cell(file: ExperimentFile, part: str, chosen: Mapping[tuple[str, ...], _Choice]) -> Cell:
    settings: dict[str, Any] = {}
    for name, value in file.settings.items():
        if isinstance(value, Mapping):
            named = _names_the_run(name, value)
            settings[name] = {key: inner for key, inner in value.items() if key != "label" or not named}
        else:
            settings[name] = value
    for path, choice in chosen.items():
        if len(path) == 1:
            settings[path[0]] = choice.value
        else:
            settings[path[0]][path[1]] = choice.value
    where = {".".join(path): choice.where for path, choice in chosen.items()}
    arm = {".".join(path): choice.label for path, choice in chosen.items()}
    name = ", ".join(f"{key} {label}" if _is_number(label) else label for key, label in arm.items()) or file.title
    try:
        it = experiment(settings)
        check(it)
    except ConfigError as error:
        raise ConfigError(f"{file.path}: {located(str(error), where)}") from None
    return Cell(name=name, arm=arm, experiment=it, about=file.about, part=part, where=where)


def located(error: str, where: Mapping[str, str]) -> str:
    """Add the index to an error about a setting that is in a list."""
    for name, place in where.items():
        if re.match(rf"{re.escape(name)}\b", error):
            return place + error[len(name) :]
    return error


def _is_number(label: str) -> bool:
    return bool(re.fullmatch(r"[-+.\de]+|true|false", label))
