"""Write docs/limits.md from the records.

    python docs/scripts/limits.py results

A test compares the committed page with the committed records.
"""

import sys
from pathlib import Path

from f2ed.experiments.reproduction.limits import limits_page

ROOT = Path(__file__).parents[2]

if __name__ == "__main__":
    (ROOT / "docs" / "limits.md").write_text(limits_page(Path(sys.argv[1])), encoding="utf-8")
