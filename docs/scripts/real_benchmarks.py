"""Write docs/real_benchmarks.md and draw its figures from the records: python docs/scripts/real_benchmarks.py."""

from pathlib import Path

from f2ed.experiments.reproduction.real_data import PICTURES, real_data_curves, real_data_page
from f2ed.report.rule_curves import draw_rule_curves

ROOT = Path(__file__).parents[2]

if __name__ == "__main__":
    for name in PICTURES:
        draw_rule_curves(real_data_curves(name, ROOT / "results"), ROOT / "docs" / "figures" / f"{name}.svg")
    (ROOT / "docs" / "real_benchmarks.md").write_text(real_data_page(ROOT / "results"), encoding="utf-8")
