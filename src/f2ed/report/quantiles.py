"""Distributions side by side, each drawn by its quantiles: what Figure 3 of Wang et al. 2021 shows."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from f2ed.report.drawing import drawing, save

__all__ = ["draw_quantiles"]


def draw_quantiles(panels: Mapping[str, Sequence[Sequence[float]]], path: Path) -> None:
    """Draw a panel for each group of distributions, on one scale; a row holds quantiles at evenly spread shares."""
    with drawing("f2ed reproduce"):
        from matplotlib.figure import Figure  # noqa: PLC0415  an optional dependency

        figure = Figure(figsize=(3.2 * len(panels), 2.4), layout="constrained")
        axes = figure.subplots(1, len(panels), sharex=True, sharey=True, squeeze=False)[0]
        for axis, (title, rows) in zip(axes, panels.items(), strict=True):
            for row in rows:
                axis.plot(row, [(rank + 0.5) / len(row) for rank in range(len(row))], linewidth=1)
            axis.set_title(title)
            axis.set_xlabel("weight in the update")
        axes[0].set_ylabel("share of weights below")
        save(figure, path)
