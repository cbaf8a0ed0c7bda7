"""Curves over the rounds: one panel for each attack, one line for each rule, the mean between the seeds' extremes."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean

from f2ed.report.colors import COLORS
from f2ed.report.drawing import drawing, save

__all__ = ["draw_rule_curves"]

_ABREAST = 3


def draw_rule_curves(panels: Mapping[str, Mapping[str, Sequence[Sequence[float]]]], path: Path) -> None:
    """Draw, for each panel and rule, a curve in percent for each seed; seeds with fewer rounds end earlier."""
    rules = list(dict.fromkeys(rule for curves in panels.values() for rule in curves))
    with drawing("docs/scripts/real_benchmarks.py"):
        from matplotlib.figure import Figure  # noqa: PLC0415  an optional dependency

        abreast = min(len(panels), _ABREAST)
        lines = -(-len(panels) // abreast)
        figure = Figure(figsize=(2.4 * abreast, 2.1 * lines + 0.3), layout="constrained")
        axes = figure.subplots(lines, abreast, squeeze=False).ravel()
        for spare in axes[len(panels) :]:
            spare.set_axis_off()
        for axis, (title, curves) in zip(axes, panels.items(), strict=False):
            for rule, seeds in curves.items():
                color = COLORS[rules.index(rule) % len(COLORS)]
                every = [
                    [seed[at] for seed in seeds if at < len(seed)] for at in range(max(len(seed) for seed in seeds))
                ]
                rounds = range(1, len(every) + 1)
                axis.plot(rounds, [fmean(values) for values in every], label=rule, color=color)
                low, high = [min(values) for values in every], [max(values) for values in every]
                axis.fill_between(rounds, low, high, color=color, alpha=0.15, linewidth=0)
            axis.set_title(title)
            axis.set_xlabel("rounds")
            axis.set_ylim(bottom=0)
        for first in axes[::abreast]:
            first.set_ylabel("percent")
        found = {line.get_label(): line for axis in axes for line in axis.get_lines()}
        figure.legend(found.values(), found.keys(), loc="outside lower center", ncols=len(found))
        save(figure, path)
