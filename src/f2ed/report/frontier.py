"""One point per rule: accuracy lost under the worst attack against the backdoor let in."""

from collections.abc import Mapping
from pathlib import Path

from f2ed.report.drawing import drawing, save

__all__ = ["draw_frontier"]

_ABREAST = 3
# Where the number of a point stands, so that neighbors do not cover each other.
_APART = (2, 2), (2, -7), (-5, 3), (-5, -8)
_TICKS = (0.1, 0.5, 1, 2, 5, 10, 20, 50)
_LEAST = 0.1
"""Points of accuracy: the scale is logarithmic, and a rule that loses less is drawn here."""


def draw_frontier(panels: Mapping[str, Mapping[str, tuple[float, float]]], path: Path) -> None:
    """Draw a panel for each setting, with the points lost and the success of each rule, both in percent.

    Rules are numbered in the order of the first panel, and the numbers explained beside the first line of panels.
    """
    rules = list(dict.fromkeys(rule for points in panels.values() for rule in points))
    with drawing("docs/scripts/frontier.py"):
        from matplotlib.figure import Figure  # noqa: PLC0415  an optional dependency

        lines = -(-len(panels) // _ABREAST)
        abreast = min(len(panels), _ABREAST)
        figure = Figure(figsize=(2.6 * abreast + 1.6, 2.6 * lines), layout="constrained")
        axes = figure.subplots(lines, abreast, sharey=True, squeeze=False).ravel()
        for spare in axes[len(panels) :]:
            spare.set_axis_off()
        for axis, (title, points) in zip(axes, panels.items(), strict=False):
            for rule, (lost, backdoor) in points.items():
                axis.plot([max(lost, _LEAST)], [backdoor], "o", color="#0072B2", markersize=3)
                number = rules.index(rule)
                apart = _APART[number % len(_APART)]
                axis.annotate(
                    str(number + 1), (max(lost, _LEAST), backdoor), apart, textcoords="offset points", fontsize=6
                )
            axis.set_xscale("log")
            low, high = axis.get_xlim()
            axis.set_xticks([tick for tick in _TICKS if low <= tick <= high], minor=False)
            axis.set_xticks([], minor=True)
            axis.xaxis.set_major_formatter("{x:g}")
            axis.set_title(title)
            axis.set_xlabel("accuracy lost, worst attack (points)")
        for first in axes[::abreast]:
            first.set_ylabel("worst backdoor (%)")
        legend = "\n".join(f"{number} {rule}" for number, rule in enumerate(rules, 1))
        axes[abreast - 1].annotate(legend, (1.04, 0.5), xycoords="axes fraction", va="center", fontsize=6)
        save(figure, path)
