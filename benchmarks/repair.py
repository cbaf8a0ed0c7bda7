"""Measure how far `f2ed repair` removes a searched backdoor.

    f2ed run searched_backdoor --only "FilterL2, found" --save-model --out runs
    f2ed run searched_backdoor --only "FilterL2 + fence, found" --save-model --out runs
    python benchmarks/repair.py runs/searched_backdoor results/repair.json --data FOLDER

Every saved model is repaired by each method with each number of trusted samples, at the command's default settings; the
command itself is called.
"""

import argparse
import contextlib
import io
import json
from pathlib import Path
from typing import get_args

from f2ed.cli.repair import repair
from f2ed.learning.repair import Method
from f2ed.records import read

SAMPLES = (100, 500)


def main() -> None:
    """Repair all models of a folder that were attacked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--data", type=Path)
    args = parser.parse_args()
    found = []
    for record in sorted(args.runs.rglob("*.jsonl")):
        header = read(record).header
        if header.settings["attack"] is None or not record.with_suffix(".safetensors").exists():
            continue
        for method in get_args(Method):
            for samples in SAMPLES:
                effect = _effect(record, method, samples, args.data)
                names = {name: header.arm[name] for name in ("partition", "estimator", "seed")}
                found.append({**names, "method": method, "samples": samples, **effect})
                print(found[-1], flush=True)
    args.out.write_text("[\n" + ",\n".join(map(json.dumps, found)) + "\n]\n", encoding="utf-8")


def _effect(record: Path, method: Method, samples: int, data: Path | None) -> dict[str, dict[str, float]]:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        repair(record, method=method, samples=samples, data=data, json=True)
    effect: dict[str, dict[str, float]] = json.loads(printed.getvalue())
    return effect


if __name__ == "__main__":
    main()
