"""Print the frontier of robust rules from its records, and draw it.

f2ed run frontier --part mnist --out results --device cuda --jobs 12
python docs/scripts/frontier.py results docs/figures/frontier.svg
"""

import sys
from pathlib import Path

from f2ed.experiments.reproduction.frontier import measured_frontier, minimax, setting_table
from f2ed.report.frontier import draw_frontier


def main(results: Path, picture: Path) -> None:
    """Print a table for each setting and the order of the rules, and draw all settings side by side."""
    every = measured_frontier(results)
    settings = list(dict.fromkeys(each.setting for each in every))
    for setting in settings:
        sys.stdout.write(f"### {setting}\n\n{setting_table(every, setting).markdown()}\n")
    sys.stdout.write("Largest harm over all settings with shards, in points:\n\n")
    for rule, harm in minimax([each for each in every if "no shards" not in each.setting]):
        sys.stdout.write(f"- {rule}: {harm:.1f}\n")
    if settings:
        panels = {name: {each.rule: (each.lost, each.backdoor) for each in every if each.setting == name}
                  for name in settings}  # fmt: skip
        draw_frontier(panels, picture)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
