"""Draw what an audit found against the rounds and the size of the shards.

f2ed audit --out audit
python docs/scripts/audit_figure.py audit/audit.json docs/figures/audit_curves.png
"""

import json
import sys
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")
from matplotlib import pyplot as plt

ARMS = {
    "every-round": "every round",
    "fixed, 5 % drop out, dropout-tolerant": "fixed, 5 % drop out, their shard opened without them",
    "batches of 2": "batches of 2",
    "fixed": "fixed",
}
SHARES = {"untrained dense model": "dense model, untrained", "trained dense model": "dense model, trained"}


def main(source: Path, target: Path) -> None:
    """Draw the figure."""
    findings = json.loads(source.read_text())["findings"]
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
    for name, label in ARMS.items():
        chosen = [one for one in findings if (one["metric"], one["setting"]) == ("cosine", name)]
        _line(left, chosen, "rounds", label)
    left.set(xscale="log", xlabel="rounds", ylabel="cosine with the client's own part", ylim=(0, 1.02))
    for name, label in SHARES.items():
        chosen = [one for one in findings if (one["metric"], one["setting"]) == ("share recovered", name)]
        _line(right, chosen, "shard", label)
    right.set(xscale="log", xlabel="members of the shard", ylabel="share of images recovered", ylim=(0, 1.02))
    right.set_xticks([1, 2, 4, 8, 16], ["1", "2", "4", "8", "16"])
    right.minorticks_off()
    for axes in (left, right):
        axes.legend(frameon=False, fontsize=8, loc="lower right" if axes is left else "lower left")
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(target, dpi=110)


def _line(axes: plt.Axes, findings: list[dict], across: str, label: str) -> None:
    ordered = sorted(findings, key=lambda one: one[across])
    places = [one[across] for one in ordered]
    axes.plot(places, [one["found"]["value"] for one in ordered], marker="o", markersize=3, label=label)
    axes.fill_between(
        places, [one["found"]["low"] for one in ordered], [one["found"]["high"] for one in ordered], alpha=0.15
    )


main(Path(sys.argv[1]), Path(sys.argv[2]))
