"""Draw the images that each coalition recovers.

f2ed audit --protocol helpers --out audit
python docs/scripts/helpers_figure.py audit docs/figures/audit_helpers.png
"""

import json
import sys
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")
from matplotlib import pyplot as plt

ROWS = {
    "untrained_true.png": "true images",
    "untrained_shards.png": "server, from means of shards of 4",
    "untrained_server.png": "server with helpers, from one mean",
    "untrained_own_exact.png": "judge + 10 clients, own updates, no sketch",
    "untrained_probing_10_exact.png": "judge + 10 clients that probe, no sketch",
    "untrained_probing_50_exact.png": "judge + 50 clients that probe, no sketch",
    "untrained_probing_50.png": "the same with the sketch",
}


def main(source: Path, target: Path) -> None:
    """Draw the figure."""
    audit = json.loads((source / "audit.json").read_text(encoding="utf-8"))
    written = {picture["file"] for picture in audit["pictures"]}
    if missing := set(ROWS) - written:
        raise SystemExit(f"{source} has no {', '.join(sorted(missing))}: run the audit with 100 clients")
    figure, axes = plt.subplots(len(ROWS), 1, figsize=(9.5, 5.2), layout="constrained")
    for each, (file, label) in zip(axes, ROWS.items(), strict=True):
        picture = plt.imread(source / file)
        each.imshow(picture, cmap="gray", vmin=0, vmax=1)
        each.set_ylabel(label, rotation=0, ha="right", va="center", fontsize=8)
        each.set(xticks=[], yticks=[])
    figure.savefig(target, dpi=110, bbox_inches="tight")


main(Path(sys.argv[1]), Path(sys.argv[2]))
