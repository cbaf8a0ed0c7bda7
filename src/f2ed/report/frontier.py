"""One point per rule: accuracy lost under the worst attack against the backdoor let in."""

from collections.abc import Mapping
from pathlib import Path

from f2ed.report.drawing import drawing, save

__all__ = ["draw_frontier"]


def draw_frontier(panels: Mapping[str, Mapping[str, tuple[float, float]]], path: Path) -> None:
    """Draw a panel for each setting, with the points lost and the success of each rule, both in percent.

    Rules are numbered in the order of the first panel, and the numbers explained beside the last.
    """
    rules = list(dict.fromkeys(rule for points in panels.values() for rule in points))
    with drawing("docs/scripts/frontier.py"):
        from matplotlib.figure import Figure  # noqa: PLC0415  an optional dependency

        figure = Figure(figsize=(2.6 * len(panels) + 1.6, 2.6), layout="constrained")
        axes = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
        for axis, (title, points) in zip(axes, panels.items(), strict=True):
            for rule, (lost, backdoor) in points.items():
                axis.plot([max(lost, 0.01)], [backdoor], "o", color="#0072B2", markersize=3)
                axis.annotate(
                    str(rules.index(rule) + 1), (max(lost, 0.01), backdoor), (2, 2), textcoords="offset points"
                )
            axis.set_title(title)
            axis.set_xlabel("accuracy lost, worst attack (points)")
        axes[0].set_ylabel("worst backdoor (%)")
        legend = "\n".join(f"{number} {rule}" for number, rule in enumerate(rules, 1))
        axes[-1].annotate(legend, (1.04, 0.5), xycoords="axes fraction", va="center", fontsize=6)
        save(figure, path)
