"""Write docs/frontier.md from the records, and draw the frontier of robust rules.

    python docs/scripts/frontier.py results docs/figures/frontier.svg

A test compares the committed page with the committed records.
"""

import sys
from pathlib import Path

from f2ed.experiments.reproduction.frontier import measured_frontier
from f2ed.experiments.reproduction.frontier_page import frontier_page
from f2ed.report.frontier import draw_frontier

ROOT = Path(__file__).parents[2]


def main(results: Path, picture: Path) -> None:
    """Draw all settings, with the searched backdoor and below without it, and write the page."""
    every = measured_frontier(results)
    settings = list(dict.fromkeys(each.setting for each in every))
    panels: dict[str, dict[str, tuple[float, float]]] = {name: {} for name in settings}
    listed: dict[str, dict[str, tuple[float, float]]] = {f"{name}, listed": {} for name in settings}
    for each in every:
        panels[each.setting][each.rule] = each.lost, each.backdoor
        listed[f"{each.setting}, listed"][each.rule] = each.lost, each.listed
    draw_frontier(panels | listed, picture)
    (ROOT / "docs" / "frontier.md").write_text(frontier_page(results), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
