"""Which runs belong together: an arm is what was run with several seeds.

Runs of one page differ in the attack, in the estimator, in the seed and perhaps in more: data, shards, masks. What
they have in common is not said; what differs beside attack and estimator is the arm's setting.
"""

from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, final

import msgspec

from f2ed.records.intake import RecordedRun
from f2ed.report.colors import Look, apart, look
from f2ed.report.labels import ATTACKS, ESTIMATORS, NO_ATTACK, attack_title, estimator_title, flat

__all__ = ["Arm", "arms"]

_OWN = {"attack", "estimator", "seed"}


@final
class Arm(msgspec.Struct, frozen=True):
    """Runs that differ in nothing but the seed."""

    key: str
    setting: str
    """What else tells it from other arms of the page, in words; "" if nothing does."""
    attack: str
    attack_kind: str
    """"" without an attack."""
    estimator: str
    estimator_name: str
    """The estimator without its parameters."""
    look: Look
    runs: tuple[RecordedRun, ...]

    @property
    def attacked(self) -> bool:
        """Whether anybody attacked."""
        return bool(self.attack_kind)


def arms(runs: Sequence[RecordedRun]) -> list[Arm]:
    """Put runs that differ in the seed alone together, without an attack first."""
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
            attack_kind=_kind(runs[members[0]], "attack"),
            estimator=labels[2],
            estimator_name=_name(runs[members[0]]),
            look=looks[labels[2]],
            runs=tuple(runs[i] for i in members),
        )
        for labels, members in grouped.items()
    ]
    return sorted(found, key=_order)


def _order(arm: Arm) -> tuple[str, int, int]:
    """Put no attack first, and the rest in the order of the lists of names; equals stay as they came."""
    attack = list(ATTACKS).index(arm.attack_kind) if arm.attack_kind in ATTACKS else len(ATTACKS)
    outer = arm.estimator_name.split(" + ")[0]
    rule = list(ESTIMATORS).index(outer) if outer in ESTIMATORS else len(ESTIMATORS)
    return arm.setting, attack if arm.attacked else -1, rule


def _settings(runs: Sequence[RecordedRun]) -> list[str]:
    """Return, for each run, what differs among the runs beside attack, estimator and seed."""
    rest = [flat(_others(run.header.settings)) for run in runs]
    differing = _differing(rest)
    return [
        ", ".join(
            _said(path, one.get(path, "default")) for path in differing if path in one or not _of_a_kind(path, one)
        )
        for one in rest
    ]


def _of_a_kind(path: str, settings: Mapping[str, str]) -> bool:
    """Say whether the settings name a kind of which a path is no setting: k of fixed shards is not worth a word."""
    table = path.rpartition(".")[0]
    return any(f"{table}.{word}" in settings for word in ("kind", "type"))


def _others(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Leave out what has a place of its own.

    In records of before there was noise there was none, and attacks began at once before they could begin later.
    """
    noise = settings.get("dp")
    told = noise.get("noise_multiplier", "unknown") if isinstance(noise, Mapping) else "none"
    rest = {key: value for key, value in settings.items() if key not in {*_OWN, "dp"}}
    return {"attack_from": 0} | rest | {"noise": told}


def _said(path: str, value: str) -> str:
    """Write a setting: a kind says what it is, a number needs its name."""
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
    telling: defaultdict[str, list[str]] = defaultdict(list)
    for (_, title), several in places.items():
        telling[title] += [path for path in _differing(several) if path not in telling[title]]
    labels = []
    for _, title, parameters in found:
        said = [f"{path} {parameters[path]}" for path in telling[title] if path in parameters]
        labels.append(f"{title} ({', '.join(said)})" if said else title)
    return labels


def _attack(run: RecordedRun) -> str:
    kind = _kind(run, "attack")
    return _own_label(run, "attack") or attack_title(kind) if kind else NO_ATTACK


def _estimator(run: RecordedRun) -> str:
    return _own_label(run, "estimator") or estimator_title(_name(run))


def _own_label(run: RecordedRun, setting: str) -> str:
    """Return the label that the experiment's author gave; one made up from the kind does not count."""
    label = run.header.arm.get(setting, "")
    return "" if label.partition("(")[0] in {_kind(run, setting), "none"} else label


def _differing(tables: Sequence[Mapping[str, str]]) -> list[str]:
    paths = dict.fromkeys(path for table in tables for path in table)
    return [path for path in paths if len({table.get(path) for table in tables}) > 1]


def _looks(runs: Sequence[RecordedRun], labels: Sequence[str]) -> dict[str, Look]:
    """Give each estimator a look of its own; parameter sets of one share its color where they can.

    Rules by themselves come before rules around others, so that they look as everywhere else.
    """
    by_name: defaultdict[str, set[str]] = defaultdict(set)
    for run, label in zip(runs, labels, strict=True):
        by_name[_name(run)].add(label)
    found: dict[str, Look] = {}
    for name in sorted(by_name, key=lambda name: (name.count(" + "), name)):
        for variant, label in enumerate(sorted(by_name[name])):
            found[label] = apart(look(name, variant), found.values())
    return found


def _table(run: RecordedRun, setting: str) -> Mapping[str, Any]:
    found = run.header.settings.get(setting)
    return found if isinstance(found, Mapping) else {"kind": found} if isinstance(found, str) else {}


def _kind(run: RecordedRun, setting: str) -> str:
    kind = str(_table(run, setting).get("kind") or "")
    return kind or ("an attack" if run.header.attacked and setting == "attack" else "")


def _name(run: RecordedRun) -> str:
    """Return the estimator's kind; with an inner rule, both."""
    table = _table(run, "estimator")
    parts = [str(table.get("kind") or "unknown")]
    while isinstance(table := table.get("inner") or {}, Mapping) and table:
        parts.append(str(table.get("kind")))
    return " + ".join(parts)


def _parameters(run: RecordedRun, setting: str) -> dict[str, str]:
    return {path: value for path, value in flat(_table(run, setting)).items() if not _is_kind(path)}


def _is_kind(path: str) -> bool:
    return path.rpartition(".")[2] == "kind"
