"""The choice of a rule by its largest regret: what it does worse than the best rule of each setting."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from f2ed.experiments.reproduction.comparison import Table

__all__ = ["Ends", "Regret", "Settings", "choose", "regret_table", "worse"]


class Ends(NamedTuple):
    """A rule in one setting, in percent: accuracy without an attack, the worst accuracy, and the worst backdoor."""

    honest: float
    accuracy: float
    backdoor: float


class Regret(NamedTuple):
    """In how many points a rule is behind the best one of a setting, and in what."""

    points: float
    criterion: str

    def text(self) -> str:
        """Return what a table shows."""
        return f"{self.points:.1f} ({self.criterion})"


Settings = Mapping[str, Mapping[str, Ends]]


def worse(many: Iterable[tuple[str, str, Ends]]) -> dict[str, dict[str, Ends]]:
    """Join what was found for the same setting and rule: the worse of each; without an attack, the last."""
    found: dict[str, dict[str, Ends]] = defaultdict(dict)
    for setting, rule, ends in many:
        before = found[setting].get(rule, ends)
        found[setting][rule] = Ends(
            ends.honest, min(before.accuracy, ends.accuracy), max(before.backdoor, ends.backdoor)
        )
    return found


def choose(settings: Settings) -> dict[str, dict[str, Regret]]:
    """Return, for each rule that was attacked in all settings, its regret in each; the choice comes first.

    Where every rule falls alike, none has a regret: a worst case over which no choice has power does not decide.
    """
    everywhere = set.intersection(*(set(rules) for rules in settings.values())) if settings else set()
    regrets = {rule: {name: _regret(rules, rule) for name, rules in settings.items()} for rule in everywhere}
    return dict(sorted(regrets.items(), key=lambda item: (_largest(item[1]), item[0])))


def _regret(rules: Mapping[str, Ends], rule: str) -> Regret:
    own, every = rules[rule], rules.values()
    return max(
        Regret(max(each.honest for each in every) - own.honest, "without an attack"),
        Regret(max(each.accuracy for each in every) - own.accuracy, "worst accuracy"),
        Regret(own.backdoor - min(each.backdoor for each in every), "backdoor"),
    )


def _largest(by_setting: Mapping[str, Regret]) -> tuple[float, float]:
    """Return the largest regret, and the sum of all of them to break ties."""
    points = [each.points for each in by_setting.values()]
    return max(points), sum(points)


def regret_table(settings: Settings, names: Sequence[str]) -> Table:
    """Return a row for each rule with its regrets and the largest of them; the least comes first."""
    rows = tuple(
        (rule, f"{max(each.points for each in found.values()):.1f}", *(found[name].text() for name in names))
        for rule, found in choose({name: settings[name] for name in names}).items()
    )
    return Table("", ("rule", "largest", *names), rows)
