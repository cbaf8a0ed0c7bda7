"""Where runs ended against a setting of theirs: what Figure 6 of Wang et al. 2021 shows for the number of shards."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from f2ed.report.colors import COLORS
from f2ed.report.drawing import drawing, save

__all__ = ["Point", "draw_against"]


class Point(NamedTuple):
    """Where the runs with one value of the setting ended: the mean over the seeds, the lowest and the highest.

    A hollow point is one where no guarantee is possible.
    """

    value: float
    mean: float
    low: float
    high: float
    hollow: bool = False


def draw_against(
    lines: Mapping[str, Sequence[Point]], path: Path, *, setting: str, measure: str, hollow: str = ""
) -> None:
    """Draw a line for each name, the setting on a logarithmic scale; `hollow` is the legend of hollow points."""
    with drawing("f2ed reproduce"):
        from matplotlib.figure import Figure  # noqa: PLC0415  an optional dependency

        figure = Figure(figsize=(4.2, 3.0), layout="constrained")
        axis = figure.subplots()
        for color, (name, points) in zip(COLORS * len(lines), lines.items(), strict=False):
            values = [point.value for point in points]
            axis.plot(values, [point.mean for point in points], color=color, label=name, zorder=1)
            for point in points:
                axis.plot([point.value] * 2, [point.low, point.high], color=color, zorder=1)
                filling = "white" if point.hollow else color
                axis.plot(point.value, point.mean, "o", markersize=4.5, color=color, markerfacecolor=filling, zorder=2)
        if any(point.hollow for points in lines.values() for point in points):
            axis.plot([], [], "o", markersize=4.5, color="gray", markerfacecolor="white", label=hollow)
        ticks = sorted({point.value for points in lines.values() for point in points})
        axis.set_xscale("log")
        axis.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
        axis.minorticks_off()
        axis.yaxis.set_major_formatter(lambda share, _: f"{100 * share:g}%")
        axis.set_xlabel(setting)
        axis.set_ylabel(measure)
        figure.legend(loc="outside lower center")
        save(figure, path)
