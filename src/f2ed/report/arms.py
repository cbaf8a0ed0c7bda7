"""Which runs belong together: an arm is one configuration, run with several seeds.

Runs of one page differ in the attack, in the estimator, in the seed and perhaps in more: data, shards, masks. What
they have in common is left out; what differs besides attack and estimator is the arm's setting.
"""

from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, final

import msgspec

from f2ed.records import Plugin
from f2ed.records.intake import RecordedRun
from f2ed.report.colors import Look, assign_looks

__all__ = ["NO_ATTACK", "Arm", "arms", "flat"]

NO_ATTACK = "no attack"
UNKNOWN_ATTACK = "deployment"
"""A deployment cannot know whether anyone attacks."""

_OWN = {"attack", "estimator", "seed"}


@final
class Arm(msgspec.Struct, frozen=True):
    """Runs that differ in nothing but the seed."""

    key: str
    setting: str
    """What else distinguishes it from other arms of the page; "" if nothing does."""
    attack: str
    attacked: bool
    """Whether malicious clients are known to attack."""
    estimator: str
    estimator_kind: str
    """The estimator without its parameters."""
    look: Look
    runs: tuple[RecordedRun, ...]


def arms(runs: Sequence[RecordedRun]) -> list[Arm]:
    """Group runs that differ in the seed alone, those without an attack first."""
    settings = _settings(runs)
    attacks = _labels([(settings[i], _attack(run), _parameters(run, "attack")) for i, run in enumerate(runs)])
    estimators = _labels(
        [((settings[i], attacks[i]), _estimator(run), _parameters(run, "estimator")) for i, run in enumerate(runs)]
    )
    grouped: defaultdict[tuple[str, str, str], list[int]] = defaultdict(list)
    for i in range(len(runs)):
        grouped[settings[i], attacks[i], estimators[i]].append(i)
    looks = _looks(runs, estimators)
    found = [
        Arm(
            key=" | ".join(labels),
            setting=labels[0],
            attack=labels[1],
            attacked=runs[members[0]].header.attacked,
            estimator=labels[2],
            estimator_kind=runs[members[0]].header.estimator.full_kind,
            look=looks[labels[2]],
            runs=tuple(runs[i] for i in members),
        )
        for labels, members in grouped.items()
    ]
    return sorted(found, key=_order)


def _order(arm: Arm) -> tuple[str, bool, bool, str, str, bool, str]:
    """Put no attack first, targeted attacks last, then order by family and name; equals stay as they came."""
    attack, estimator = arm.runs[0].header.attack, arm.runs[0].header.estimator
    family, title = ("", "") if attack is None else (attack.family, attack.title)
    targeted = any(record.success is not None for run in arm.runs for record in run.rounds[-1:])
    return arm.setting, arm.attacked, targeted, family, title, estimator.inner is not None, estimator.family


def _settings(runs: Sequence[RecordedRun]) -> list[str]:
    """Return, for each run, what differs among the runs besides attack, estimator and seed."""
    rest = [flat(_others(run.header.settings)) for run in runs]
    differing = _differing(rest)
    return [
        ", ".join(
            _stated(path, one.get(path, "default")) for path in differing if path in one or not _of_a_kind(path, one)
        )
        for one in rest
    ]


def _of_a_kind(path: str, settings: Mapping[str, str]) -> bool:
    """Return whether the settings name a kind that has no such setting: fixed shards have no k."""
    table = path.rpartition(".")[0]
    return any(f"{table}.{word}" in settings for word in ("kind", "type"))


def _others(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Leave out what has a place of its own; the first records did not state noise or when attacks begin."""
    noise = settings.get("dp")
    multiplier = noise.get("noise_multiplier", "unknown") if isinstance(noise, Mapping) else "none"
    rest = {key: value for key, value in settings.items() if key not in {*_OWN, "dp"}}
    return {"attack_from": 0} | rest | {"noise": multiplier}


def _stated(path: str, value: str) -> str:
    """Write a setting: a kind speaks for itself, a number needs its name."""
    name, _, last = path.rpartition(".")
    if last in {"kind", "type"}:
        return value
    if value in {"True", "False"}:
        return path if value == "True" else f"not {path}"
    return f"{(last if name else path).replace('_', ' ')} {value}"


def _labels(found: list[tuple[Hashable, str, dict[str, str]]]) -> list[str]:
    """Add parameters to names where one name occurs with several in the same place."""
    places: defaultdict[tuple[Hashable, str], list[dict[str, str]]] = defaultdict(list)
    for place, title, parameters in found:
        places[place, title].append(parameters)
    distinctive: defaultdict[str, list[str]] = defaultdict(list)
    for (_, title), several in places.items():
        distinctive[title] += [path for path in _differing(several) if path not in distinctive[title]]
    labels = []
    for _, title, parameters in found:
        stated = [f"{path} {parameters[path]}" for path in distinctive[title] if path in parameters]
        labels.append(f"{title} ({', '.join(stated)})" if stated else title)
    return labels


def _attack(run: RecordedRun) -> str:
    if run.header.source == "deployment":
        return UNKNOWN_ATTACK
    plugin = run.header.attack
    return NO_ATTACK if plugin is None else _own_label(run, "attack", plugin) or plugin.full_title


def _estimator(run: RecordedRun) -> str:
    return _own_label(run, "estimator", run.header.estimator) or run.header.estimator.full_title


def _own_label(run: RecordedRun, setting: str, plugin: Plugin) -> str:
    """Return the label that the experiment's author gave; one made up from the kind does not count."""
    label = run.header.arm.get(setting, "")
    return "" if label.partition("(")[0] in {plugin.kind, "none"} else label


def _differing(tables: Sequence[Mapping[str, str]]) -> list[str]:
    paths = dict.fromkeys(path for table in tables for path in table)
    return [path for path in paths if len({table.get(path) for table in tables}) > 1]


def _looks(runs: Sequence[RecordedRun], labels: Sequence[str]) -> dict[str, Look]:
    return assign_looks({label: run.header.estimator for run, label in zip(runs, labels, strict=True)})


def _parameters(run: RecordedRun, setting: str) -> dict[str, str]:
    table = run.header.settings.get(setting)
    found = flat(table) if isinstance(table, Mapping) else {}
    return {path: value for path, value in found.items() if path.rpartition(".")[2] != "kind" and value != "None"}


def flat(settings: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    """Flatten tables to dotted paths, and values to short text."""
    found: dict[str, str] = {}
    for key, value in settings.items():
        path = f"{prefix}{key}"
        if isinstance(value, Mapping):
            found |= flat(value, f"{path}.")
        else:
            found[path] = f"{value:g}" if isinstance(value, float) else str(value)
    return found
