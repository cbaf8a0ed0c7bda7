"""Our figures beside the paper's: tables, and what they say in plain words."""

from collections.abc import Sequence
from typing import final

import msgspec

from f2ed.experiments.reproduction.outcomes import Measured, Panel
from f2ed.experiments.reproduction.paper import released, stated

__all__ = [
    "CLOSE",
    "OURS",
    "THEIRS",
    "Table",
    "against_shards",
    "agreement",
    "behind",
    "beside_the_paper",
    "beside_the_records",
    "by_shards",
    "every_arm",
    "minority",
    "number",
]

OURS = "FilterL2"
THEIRS = "FilterL2 (paper)"
CLOSE = 0.005
"""What counts as close to the best: half a point, the difference between two seeds."""
_LOST, _FOOLED = 0.02, 0.25
# The released code has no ResNet18: with it DBA is the inventors', as the paper's appendix says.
_ONE_VARIANT = {"none", "DBA ResNet18"}


@final
class Table(msgspec.Struct, frozen=True):
    """A table of texts; numbers stand to the right."""

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    left: int = 1
    """How many columns are names."""

    def markdown(self) -> str:
        """Return it as Markdown, without its title."""
        rule = ["---"] * self.left + ["---:"] * (len(self.head) - self.left)
        return "".join(f"| {' | '.join(row)} |\n" for row in (self.head, tuple(rule), *self.rows))


def beside_the_paper(figure: str, panels: Sequence[Panel]) -> Table:
    """Set each number that the paper states beside ours; a difference above zero is in our favor.

    The spoilt weight is what shards (or clients) with an attacker had in the last rounds.
    """
    rows = []
    for panel in panels:
        attack = _as_the_authors_ran_it(panel)
        if attack is None:
            continue
        for arm in (OURS, "Mean"):
            value = stated(figure, panel.data, arm).get(attack.split()[0])
            if value is None:
                continue
            rows.append(_beside(panel, attack, arm, value))
    head = (
        "data",
        "attack",
        "measured",
        "rule",
        "ours",
        "spoilt weight",
        "the authors' FilterL2, run here",
        "the paper",
    )
    return Table("Beside the paper's numbers", (*head, "difference", ""), tuple(rows), 4)


def beside_the_records(figure: str, panels: Sequence[Panel]) -> Table:
    """Set what the authors' own runs ended with beside ours, rule by rule; both FilterL2 stand beside theirs."""
    rows = []
    for panel in panels:
        attack = _as_the_authors_ran_it(panel)
        if attack is None:
            continue
        for rule, value in released(figure, panel.data, attack).items():
            for arm in (rule, THEIRS) if rule == OURS else (rule,):
                ours = panel.arms.get(arm)
                difference = "" if ours is None else f"{100 * (ours.mean - value) + 0.0:+.2f}"
                names = (panel.data, attack, panel.measure, arm)
                rows.append((*names, number(ours), f"{100 * value:.2f}", difference))
    head = ("data", "attack", "measured", "rule", "ours", "the authors' record", "ours - theirs")
    return Table("Beside the authors' own records", head, tuple(rows), 4)


def _as_the_authors_ran_it(panel: Panel) -> str | None:
    """Return the name of a panel's attack if it is in the authors' variant, or has none."""
    attack, _, variant = panel.attack.partition(" (")
    return attack if variant == "authors)" or attack in _ONE_VARIANT else None


def _beside(panel: Panel, attack: str, arm: str, value: float) -> tuple[str, ...]:
    ours, theirs = panel.arms.get(arm), panel.arms.get(THEIRS)
    sign = 1 if panel.measure == "accuracy" else -1
    gain = None if ours is None else sign * (ours.mean - value)
    return (
        panel.data,
        attack,
        panel.measure,
        arm,
        number(ours),
        "" if ours is None or ours.spoilt is None else f"{100 * ours.spoilt:.1f} %",
        number(theirs) if arm == OURS else "",
        f"{100 * value:.2f}",
        "" if gain is None else f"{100 * gain + 0.0:+.2f}",
        "not run" if gain is None else _verdict(gain),
    )


def _verdict(gain: float) -> str:
    if gain >= -5e-5:
        return "as good or better"
    return "within half a point" if gain >= -CLOSE else "worse"


def every_arm(panels: Sequence[Panel], data: str) -> Table:
    """Set all rules that were run against all attacks on one data set."""
    here = [panel for panel in panels if panel.data == data]
    arms = list(dict.fromkeys(arm for panel in here for arm, found in panel.arms.items() if found is not None))
    head = ("rule", *(f"{panel.attack}: {panel.measure}" for panel in here))
    rows = ((arm, *(number(panel.arms.get(arm)) for panel in here)) for arm in arms)
    return Table(f"Every rule under every attack, {data}", head, tuple(rows))


def by_shards(panels: Sequence[Panel]) -> Table:
    """Set the number of shards against what was measured, for each attack and rule that was run."""
    lines = against_shards(panels)
    rows = []
    for shards in sorted({shards for points in lines.values() for shards in points}):
        here = [points.get(shards) for points in lines.values()]
        tainted = max(found.tainted for found in here if found is not None)
        rows.append((str(shards), str(tainted), *map(number, here)))
    return Table("The number of shards", ("shards", "with an attacker", *lines), tuple(rows))


def against_shards(panels: Sequence[Panel]) -> dict[str, dict[int, Measured]]:
    """Return what was measured by the number of shards, for each attack and rule that was run."""
    lines: dict[str, dict[int, Measured]] = {}
    for panel in panels:
        for arm, measured in panel.arms.items():
            rule, _, shards = arm.partition(", shards ")
            if measured is not None:
                lines.setdefault(f"{panel.attack}, {rule}: {panel.measure}", {})[int(shards)] = measured
    return lines


def minority(panels: Sequence[Panel]) -> list[str]:
    """Say how each rule fares where fewer than half of the shards have an attacker, and where more have."""
    said = []
    for name, points in against_shards(panels).items():
        few, many = (
            [end.mean for shards, end in points.items() if end.outnumbered(shards) == outnumbered]
            for outnumbered in (False, True)
        )
        parts = [
            f"{_range(ends)} where {where} of the shards have an attacker"
            for ends, where in ((few, "fewer than half"), (many, "half or more"))
            if ends
        ]
        said.append(f"{name} {', '.join(parts)}.")
    return said


def _range(shares: Sequence[float]) -> str:
    low, high = (f"{100 * end:.2f}" for end in (min(shares), max(shares)))
    return low if low == high else f"{low} to {high}"


def behind(panels: Sequence[Panel], arm: str = OURS) -> list[str]:
    """Say where an arm is neither best nor close to it, the worst first; then, in one sentence, where it is."""
    gaps = [(panel, gap) for panel in panels if (gap := panel.gap(arm)) is not None]
    far = sorted((each for each in gaps if each[1].size > CLOSE), key=lambda each: -each[1].size)
    said = [
        f"{panel.data}, {panel.attack}: {arm} is {100 * gap.size:.1f} points behind {gap.best} "
        f"({panel.measure} {number(gap.mine)} against {number(gap.theirs)})."
        for panel, gap in far
    ]
    missing = [panel for panel in panels if panel.gap(arm) is None]
    if gaps:
        said.append(
            f"{arm} is best, or within {100 * CLOSE:.1f} points of the best rule, in {len(gaps) - len(far)} of "
            f"{len(gaps)} panels that were run with another rule."
        )
    if missing:
        said.append(f"Nothing to compare with was run in: {', '.join(f'{p.data} {p.attack}' for p in missing)}.")
    return said


def holds(panel: Panel, arm: str, calm: float | None) -> bool | None:
    """Say whether an arm holds: at most 2 points below averaging without an attack, or fooled on at most a quarter."""
    found = panel.arms.get(arm)
    if found is None or (panel.measure == "accuracy" and calm is None):
        return None
    return found.mean <= _FOOLED if panel.measure == "success" else found.mean >= (calm or 0.0) - _LOST


def agreement(quick: Sequence[Panel], full: Sequence[Panel]) -> tuple[Table, str]:
    """Compare who holds in the quick version with who holds in the full one.

    Nothing is judged where it was not run, or where averaging without an attack was not.
    """
    rows, same, known = [], 0, 0
    whole = {(panel.data, panel.attack): panel for panel in full}
    for panel in quick:
        other = whole.get((panel.data, panel.attack))
        for arm in panel.arms:
            mine = holds(panel, arm, _calm(quick, panel.data))
            theirs = None if other is None else holds(other, arm, _calm(full, panel.data))
            if mine is None:
                continue
            known += theirs is not None
            same += mine is theirs
            agrees = "" if theirs is None else "yes" if mine is theirs else "no"
            rows.append((panel.data, panel.attack, arm, number(panel.arms[arm]), _said(mine), _said(theirs), agrees))
    head = ("data", "attack", "rule", "quick", "it", "in the full run it", "agrees")
    sentence = (
        f"Of {known} conclusions that a full run was there to check, {same} agree."
        if known
        else "No full runs were there to check these conclusions with."
    )
    return Table("Who holds", head, tuple(rows), 3), sentence


def _calm(panels: Sequence[Panel], data: str) -> float | None:
    """Return what averaging reaches without an attack, if it was run; in a figure without such a panel, the best."""
    here = [panel for panel in panels if panel.data == data and panel.measure == "accuracy"]
    calm = next((panel for panel in here if panel.attack == "none"), None)
    if calm is not None:
        return None if (mean := calm.arms.get("Mean")) is None else mean.mean
    return max((found.mean for panel in here for found in panel.arms.values() if found is not None), default=None)


def _said(verdict: bool | None) -> str:
    return "was not judged" if verdict is None else "holds" if verdict else "breaks"


def number(found: Measured | None) -> str:
    """Write percent, and the spread where there are several seeds."""
    if found is None:
        return "not run"
    text = f"{100 * found.mean:.2f}"
    if len(found.ends) > 1:
        low, high = min(found.ends.values()), max(found.ends.values())
        text += f" ({100 * low:.2f} to {100 * high:.2f}, {len(found.ends)} seeds)"
    return text
