"""Write docs/reproducing.md, its pictures, and the passages that other pages take from the records in results/.

    python docs/scripts/reproducing.py

A test compares the committed pages with the committed records.
"""

import shutil
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from f2ed.cli.pictures import draw
from f2ed.experiments.reproduction.distribution import Distribution
from f2ed.experiments.reproduction.front import advice, front, limitations
from f2ed.experiments.reproduction.page import page, reproduced
from f2ed.experiments.reproduction.paper import FIGURES, WORST_CASES
from f2ed.report.quantiles import draw_quantiles

ROOT = Path(__file__).parents[2]
PICTURES = ROOT / "docs" / "figures" / "reproduced"


def main() -> None:
    """Write the pictures and the pages."""
    docs, results = ROOT / "docs", ROOT / "results"
    draw_all(results)
    pictures = [path.name for path in PICTURES.glob("*.svg")]
    (docs / "reproducing.md").write_text(page(results, pictures), encoding="utf-8")
    for path, made in (
        (docs / "index.md", front),
        (ROOT / "README.md", front),
        (docs / "choosing_estimator.md", advice),
        (docs / "worst_case.md", limitations),
    ):
        path.write_text(made(results, path.read_text(encoding="utf-8")), encoding="utf-8")


def draw_all(results: Path) -> None:
    """Draw each figure that was run."""
    for old in PICTURES.glob("*.svg"):
        old.unlink()
    if (path := results / "fig3" / "distribution.json").exists():
        found = msgspec.json.decode(path.read_bytes(), type=Distribution)
        sides = {"Five clients of one shard": found.clients, "The five shard means": found.shards}
        draw_quantiles(sides, PICTURES / "fig3-distribution.svg")
    for each in (reproduced(name, results) for name in FIGURES if name not in WORST_CASES):
        if each.found:
            with TemporaryDirectory() as folder:
                for path in draw(each.name, each.cells, each.found, Path(folder)):
                    PICTURES.mkdir(parents=True, exist_ok=True)
                    shutil.copy(path, PICTURES / f"{each.name}-{path.name}")


if __name__ == "__main__":
    main()
