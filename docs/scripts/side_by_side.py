"""Write docs/side_by_side.md from the records: python docs/scripts/side_by_side.py.

A test compares the committed page with the committed records.
"""

from pathlib import Path

from f2ed.experiments.reproduction.side_by_side import side_by_side_page

ROOT = Path(__file__).parents[2]

if __name__ == "__main__":
    (ROOT / "docs" / "side_by_side.md").write_text(side_by_side_page(ROOT / "results"), encoding="utf-8")
