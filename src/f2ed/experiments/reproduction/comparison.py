"""Compare our results with the paper's: tables and sentences."""

from collections.abc import Iterator, Sequence
from typing import final

import msgspec

from f2ed.experiments.reproduction.outcomes import Measured, Panel
from f2ed.experiments.reproduction.paper import released, stated
from f2ed.records.grading import grade

__all__ = [
    "CLOSE",
    "FENCED",
    "OURS",
    "THEIRS",
    "Table",
    "against_paper",
    "against_released",
    "against_shards",
    "agreement",
    "behind",
    "by_shards",
    "every_arm",
    "minority",
    "number",
    "verdicts",
]

OURS = "FilterL2"
FENCED = "FilterL2 + fence"
THEIRS = "FilterL2 (paper)"
CLOSE = 0.005
"""Half a point counts as close to the best: two seeds may differ by as much."""
# The released code has no ResNet18: DBA with it is the original attack, as in the paper's appendix.
_ONE_VARIANT = {"none", "DBA ResNet18"}


@final
class Table(msgspec.Struct, frozen=True):
    """A table of strings; numbers are aligned to the right."""

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    left: int = 1
    """The number of name columns."""

    def markdown(self) -> str:
        """Return it as Markdown, without its title."""
        rule = ["---"] * self.left + ["---:"] * (len(self.head) - self.left)
        return "".join(f"| {' | '.join(row)} |\n" for row in (self.head, tuple(rule), *self.rows))


def against_paper(figure: str, panels: Sequence[Panel]) -> Table:
    """Compare each number stated in the paper with ours; a positive difference is in our favor."""
    rows = [_beside(*each) for each in _compared(figure, panels)]
    head = (
        "data",
        "attack",
        "measured",
        "rule",
        "ours",
        "weight on contaminated rows",
        "released FilterL2, run here",
        FENCED,
        "paper",
    )
    return Table("Compared with the paper", (*head, "difference", ""), tuple(rows), 4)


def verdicts(figure: str, panels: Sequence[Panel], rule: str) -> list[tuple[str, str, str]]:
    """Return data, attack and verdict for each number stated in the paper, with another rule in the place of theirs."""
    return [
        (panel.data, attack, _verdict(_gain(panel, panel.arms.get(rule), value)))
        for panel, attack, _, value in _compared(figure, panels)
    ]


def _compared(figure: str, panels: Sequence[Panel]) -> Iterator[tuple[Panel, str, str, float]]:
    """Yield the panel, the attack, the rule and the number for each one stated in the paper."""
    for panel in panels:
        attack = _released_attack(panel)
        if attack is None:
            continue
        for arm in (OURS, "Mean"):
            value = stated(figure, panel.data, arm).get(attack.split()[0])
            if value is not None:
                yield panel, attack, arm, value


def against_released(figure: str, panels: Sequence[Panel]) -> Table:
    """Compare the final values of the released logs with ours; both FilterL2 are compared with theirs."""
    rows = []
    for panel in panels:
        attack = _released_attack(panel)
        if attack is None:
            continue
        for rule, value in released(figure, panel.data, attack).items():
            for arm in (rule, THEIRS) if rule == OURS else (rule,):
                ours = panel.arms.get(arm)
                difference = "" if ours is None else f"{100 * (ours.mean - value) + 0.0:+.2f}"
                names = (panel.data, attack, panel.measure, arm)
                rows.append((*names, number(ours), f"{100 * value:.2f}", difference))
    head = ("data", "attack", "measured", "rule", "ours", "released log", "ours - theirs")
    return Table("Compared with the released logs", head, tuple(rows), 4)


def _released_attack(panel: Panel) -> str | None:
    """Return the name of a panel's attack if it is the released variant or the only one."""
    attack, _, variant = panel.attack.partition(" (")
    return attack if variant == "released)" or attack in _ONE_VARIANT else None


def _beside(panel: Panel, attack: str, arm: str, value: float) -> tuple[str, ...]:
    ours, theirs = panel.arms.get(arm), panel.arms.get(THEIRS)
    gain = _gain(panel, ours, value)
    return (
        panel.data,
        attack,
        panel.measure,
        arm,
        number(ours),
        "" if ours is None or ours.contaminated_weight is None else f"{100 * ours.contaminated_weight:.1f} %",
        number(theirs) if arm == OURS else "",
        number(panel.arms.get(FENCED)),
        f"{100 * value:.2f}",
        "" if gain is None else f"{100 * gain + 0.0:+.2f}",
        _verdict(gain),
    )


def _gain(panel: Panel, ours: Measured | None, value: float) -> float | None:
    sign = 1 if panel.measure == "accuracy" else -1
    return None if ours is None else sign * (ours.mean - value)


def _verdict(gain: float | None) -> str:
    if gain is None:
        return "not run"
    if gain >= -5e-5:
        return "as good or better"
    return "within half a point" if gain >= -CLOSE else "worse"


def every_arm(panels: Sequence[Panel], data: str) -> Table:
    """Tabulate all rules that were run against all attacks on one data set."""
    here = [panel for panel in panels if panel.data == data]
    arms = list(dict.fromkeys(arm for panel in here for arm, found in panel.arms.items() if found is not None))
    head = ("rule", *(f"{panel.attack}: {panel.measure}" for panel in here))
    rows = ((arm, *(number(panel.arms.get(arm)) for panel in here)) for arm in arms)
    return Table(f"Every rule under every attack, {data}", head, tuple(rows))


def by_shards(panels: Sequence[Panel]) -> Table:
    """Tabulate the results by number of shards, for each attack and rule that was run."""
    lines = against_shards(panels)
    rows = []
    for shards in sorted({shards for points in lines.values() for shards in points}):
        here = [points.get(shards) for points in lines.values()]
        contaminated = max(found.contaminated for found in here if found is not None)
        rows.append((str(shards), str(contaminated), *map(number, here)))
    return Table("The number of shards", ("shards", "contaminated", *lines), tuple(rows))


def against_shards(panels: Sequence[Panel]) -> dict[str, dict[int, Measured]]:
    """Return the results by number of shards, for each attack and rule that was run."""
    lines: dict[str, dict[int, Measured]] = {}
    for panel in panels:
        for arm, measured in panel.arms.items():
            rule, _, shards = arm.partition(", shards ")
            if measured is not None:
                lines.setdefault(f"{panel.attack}, {rule}: {panel.measure}", {})[int(shards)] = measured
    return lines


def minority(panels: Sequence[Panel]) -> list[str]:
    """Describe the results with a contaminated minority of the shards, and with half or more contaminated."""
    sentences = []
    for name, points in against_shards(panels).items():
        few, many = (
            [end.mean for shards, end in points.items() if end.outnumbered(shards) == outnumbered]
            for outnumbered in (False, True)
        )
        parts = [
            f"{_range(ends)} with {where} of the shards contaminated"
            for ends, where in ((few, "fewer than half"), (many, "half or more"))
            if ends
        ]
        sentences.append(f"{name} {', '.join(parts)}.")
    return sentences


def _range(shares: Sequence[float]) -> str:
    low, high = (f"{100 * end:.2f}" for end in (min(shares), max(shares)))
    return low if low == high else f"{low} to {high}"


def behind(panels: Sequence[Panel], arm: str = OURS) -> list[str]:
    """Describe where an arm is not close to the best, the worst first; then count where it is."""
    gaps = [(panel, gap) for panel in panels if (gap := panel.gap(arm)) is not None]
    far = sorted((each for each in gaps if each[1].size > CLOSE), key=lambda each: -each[1].size)
    sentences = [
        f"{panel.data}, {panel.attack}: {arm} is {100 * gap.size:.1f} points behind {gap.best} "
        f"({panel.measure} {number(gap.mine)} against {number(gap.theirs)})."
        for panel, gap in far
    ]
    missing = [panel for panel in panels if panel.gap(arm) is None and panel.arms.get(arm) is not None]
    if gaps:
        sentences.append(
            f"{arm} is best, or within {100 * CLOSE:.1f} points of the best rule, in {len(gaps) - len(far)} of "
            f"{len(gaps)} panels with at least one other rule."
        )
    if missing:
        sentences.append(f"No other rule was run in: {', '.join(f'{p.data} {p.attack}' for p in missing)}.")
    return sentences


def holds(panel: Panel, arm: str, baseline: float | None) -> bool | None:
    """Whether an arm holds, by the grades of all records, against averaging without an attack."""
    found = panel.arms.get(arm)
    if found is None or (panel.measure == "accuracy" and baseline is None):
        return None
    if panel.measure == "success":
        return grade(None, found.mean) == "held"
    return grade((baseline or 0.0) - found.mean, None) == "held"


def agreement(quick: Sequence[Panel], full: Sequence[Panel]) -> tuple[Table, str]:
    """Compare which rules hold in the quick version and in the full one.

    A rule is graded only where it, and averaging without an attack, were run.
    """
    rows, same, known = [], 0, 0
    whole = {(panel.data, panel.attack): panel for panel in full}
    for panel in quick:
        other = whole.get((panel.data, panel.attack))
        for arm in panel.arms:
            mine = holds(panel, arm, _baseline(quick, panel.data))
            theirs = None if other is None else holds(other, arm, _baseline(full, panel.data))
            if mine is None:
                continue
            known += theirs is not None
            same += mine is theirs
            agrees = "" if theirs is None else "yes" if mine is theirs else "no"
            rows.append(
                (panel.data, panel.attack, arm, number(panel.arms[arm]), _graded(mine), _graded(theirs), agrees)
            )
    head = ("data", "attack", "rule", "quick", "quick version", "full version", "agrees")
    sentence = (
        f"{same} of {known} conclusions agree with the full version."
        if known
        else "There are no full runs to check these conclusions against."
    )
    return Table("Which rules hold", head, tuple(rows), 3), sentence


def _baseline(panels: Sequence[Panel], data: str) -> float | None:
    """Return the accuracy of averaging without an attack, if it was run; without such a panel, the best accuracy."""
    here = [panel for panel in panels if panel.data == data and panel.measure == "accuracy"]
    panel = next((panel for panel in here if panel.attack == "none"), None)
    if panel is not None:
        return None if (mean := panel.arms.get("Mean")) is None else mean.mean
    return max((found.mean for panel in here for found in panel.arms.values() if found is not None), default=None)


def _graded(verdict: bool | None) -> str:
    return "not graded" if verdict is None else "holds" if verdict else "breaks"


def number(found: Measured | None) -> str:
    """Format in percent, with the range over seeds if there are several."""
    if found is None:
        return "not run"
    text = f"{100 * found.mean:.2f}"
    if len(found.ends) > 1:
        low, high = min(found.ends.values()), max(found.ends.values())
        text += f" ({100 * low:.2f} to {100 * high:.2f}, {len(found.ends)} seeds)"
    return text
