"""Figures for papers: one panel per attack with all estimators, as in the figures of Wang et al. 2021.

A panel shows the accuracy, or for a targeted attack its success rate. Each setting that differs (data, shards …)
is a figure of its own. Colors and dashes are those of the page.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from f2ed.core.errors import ConfigError
from f2ed.records.intake import RecordedRun
from f2ed.report.arms import Arm, arms
from f2ed.report.curves import Curve, Read, accuracy, curve, success
from f2ed.report.drawing import drawing, save

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["Format", "write_figures"]

Format = Literal["svg", "pdf", "png"]

_DASHES: dict[str, Any] = {
    "solid": "-",
    "dash": (0, (4, 1.5)),
    "dot": (0, (1, 1)),
    "dashdot": (0, (4, 1, 1, 1)),
    "longdash": (0, (8, 1.5)),
}
_PANEL = (1.8, 1.65)
"""Inches: four panels are as wide as a page of text."""
_LEGEND_LINE, _LEGEND_MARK, _LEGEND_LETTER = 0.18, 0.55, 0.06
"""Inches: the height of a line of the legend, what an entry takes beside its name, and each letter of the name."""
_COLUMNS = 4


def write_figures(runs: Sequence[RecordedRun], folder: Path, kind: Format) -> list[Path]:
    """Write a figure for each setting into the folder; the same records give the same bytes."""
    every = [arm for arm in arms(runs) if curve(arm.runs, accuracy) or curve(arm.runs, success)]
    if not every:
        raise ConfigError("no run has a round to draw yet; wait for the first, or name other records")
    written = []
    for setting in dict.fromkeys(arm.setting for arm in every):
        path = folder / f"{_file_name(setting)}.{kind}"
        with drawing("f2ed figures"):
            save(_figure([arm for arm in every if arm.setting == setting], setting), path)
        written.append(path)
    return written


def _file_name(setting: str) -> str:
    kept = "".join(letter if letter.isalnum() else "-" for letter in setting.lower())
    return "-".join(part for part in kept.split("-") if part) or "figure"


def _figure(members: Sequence[Arm], setting: str) -> "Figure":
    from matplotlib.figure import Figure  # noqa: PLC0415  an optional dependency

    attacks = list(dict.fromkeys(arm.attack for arm in members))
    columns = min(3 if len(attacks) in {3, 5, 6, 9} else _COLUMNS, len(attacks))
    rows = -(-len(attacks) // columns)
    width = _PANEL[0] * columns
    entries = {arm.estimator for arm in members}
    beside = max(1, int(width / (_LEGEND_MARK + _LEGEND_LETTER * max(map(len, entries)))))
    height = _PANEL[1] * rows + _LEGEND_LINE * -(-len(entries) // beside)
    figure = Figure(figsize=(width, height), layout="constrained")
    panels = figure.subplots(rows, columns, squeeze=False).ravel()
    for letter, (panel, attack) in enumerate(zip(panels, attacks, strict=False)):
        title = f"({chr(ord('a') + letter)}) {attack}" if letter < 26 else attack
        _draw(panel, title, [arm for arm in members if arm.attack == attack])
    for panel in panels[len(attacks) :]:
        panel.set_axis_off()
    lines = {line.get_label(): line for panel in panels for line in panel.get_lines()}
    figure.legend(lines.values(), lines.keys(), loc="outside lower center", ncols=beside)
    if setting:
        figure.suptitle(setting, fontsize=9)
    return figure


def _draw(panel: "Axes", title: str, members: Sequence[Arm]) -> None:
    targeted = any(curve(arm.runs, success) for arm in members)
    read: Read = success if targeted else accuracy
    for arm in members:
        if (found := curve(arm.runs, read)) is not None:
            _line(panel, arm, found)
    panel.set_title(title)
    panel.set_ylim(-0.02, 1.02)
    panel.set_yticks((0, 0.5, 1), ("0%", "50%", "100%"))
    panel.set_ylabel("attack success" if targeted else "accuracy")
    panel.set_xlabel("rounds")


def _line(panel: "Axes", arm: Arm, found: Curve) -> None:
    nan = float("nan")
    rounds = [number + 1 for number in found.rounds]
    low, mean, high = (
        [nan if value is None else value for value in each] for each in (found.low, found.mean, found.high)
    )
    style = {"color": arm.look.color, "linestyle": _DASHES[arm.look.dash]}
    panel.plot(rounds, mean, label=arm.estimator, marker="." if len(rounds) == 1 else None, **style)
    if len(arm.runs) > 1:
        panel.fill_between(rounds, low, high, color=arm.look.color, alpha=0.15, linewidth=0)
