"""Write docs/real_benchmarks.md from the records: python docs/scripts/real_benchmarks.py."""

from pathlib import Path

from f2ed.experiments.reproduction.real_data import real_data_page

ROOT = Path(__file__).parents[2]

if __name__ == "__main__":
    (ROOT / "docs" / "real_benchmarks.md").write_text(real_data_page(ROOT / "results"), encoding="utf-8")
