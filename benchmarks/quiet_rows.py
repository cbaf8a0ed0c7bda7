"""Measure whether the rows of a quiet backdoor stand out among all sets of as many rows.

    python benchmarks/quiet_rows.py results/quiet_rows.json --data FOLDER

In every third round all sets of as many rows as are contaminated are compared by how far they move the mean, which is
how much their rows agree. Counted are the sets that stand out more than the contaminated one, and how many contaminated
rows the one that stands out most has. The deviation of an honest row is also averaged over all rounds: what persists,
memory cannot average out. The aggregate is the plain mean.
"""

import argparse
import json
from itertools import combinations
from pathlib import Path

import numpy as np

from f2ed import simulate
from f2ed.core.arrays import to_numpy
from f2ed.estimators import Estimate, Estimator

REACHES = (0.2, 0.3, 0.4, 0.5)
CHUNK = 200_000
SEEN: list[np.ndarray] = []


class Watched(Estimator, frozen=True, tag="watched"):
    """The plain mean; keeps the rows of the round."""

    title = "Watched mean"
    family = "baseline"
    paper = "the plain mean"
    uses_previous = False

    def estimate(self, rows):
        """Average, and remember how far each row is from the mean."""
        weights = np.full(rows.n, 1 / rows.n)
        mean = rows.combine(weights)
        SEEN.append(to_numpy(rows.matrix - mean).astype(np.float32))
        return Estimate(mean, weights)


def every_set(n, size):
    """Return all sets of `size` of n rows, as rows of zeros and ones."""
    chosen = np.fromiter((at for each in combinations(range(n), size) for at in each), np.uint8).reshape(-1, size)
    sets = np.zeros((len(chosen), n), np.uint8)
    np.put_along_axis(sets, chosen.astype(np.intp), 1, axis=1)
    return sets


def standing(gram, bad, sets):
    """Return the share of sets that move the mean farther than the bad rows, and the overlap of the farthest."""
    mine = gram[np.ix_(bad, bad)].sum()
    above, best, overlap = 0, -np.inf, 0
    for at in range(0, len(sets), CHUNK):
        some = sets[at : at + CHUNK].astype(np.float32)
        moved = ((some @ gram) * some).sum(1)
        above += int((moved > mine * (1 + 1e-6)).sum())
        farthest = int(moved.argmax())
        if moved[farthest] > best:
            best, overlap = float(moved[farthest]), int(some[farthest][bad].sum())
    return above / len(sets), overlap


def measured(reach, data, rounds):
    """Run once; return what the rows showed, and what the backdoor reached."""
    SEEN.clear()
    run = simulate(
        data="mnist",
        model={"kind": "mlp", "hidden": [32]},
        clients=100,
        malicious=10,
        shards=25,
        secure=False,
        rounds=rounds,
        estimator=Watched(),
        attack={"kind": "quiet-backdoor", "reach": reach},
        training={"lr": 0.1, "batch_size": 20, "local_epochs": 1},
        folder=data,
    )
    sets, above, overlaps, summed, lengths = None, [], [], 0.0, 0.0
    for record in run:
        away = SEEN.pop()
        bad = np.array(record.contaminated)
        good = np.setdiff1d(np.arange(len(away)), bad)
        summed = summed + away[good]
        lengths = lengths + np.linalg.norm(away[good], axis=1)
        if record.round % 3 == 0:
            sets = every_set(len(away), len(bad)) if sets is None else sets
            share, overlap = standing(away @ away.T, bad, sets)
            above.append(share)
            overlaps.append(overlap)
    return {
        "reach": reach,
        "contaminated": len(bad),
        "sets": len(sets),
        "above": float(np.median(above)),
        "overlap": round(float(np.mean(overlaps)), 2),
        "persists": round(float((np.linalg.norm(summed, axis=1) / lengths).mean()), 3),
        "accuracy": record.accuracy,
        "success": record.success,
    }


def main():
    """Measure all steps and write them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--data", type=Path, default=None)
    parser.add_argument("--rounds", type=int, default=30)
    options = parser.parse_args()
    rows = []
    for reach in REACHES:
        rows.append(measured(reach, options.data, options.rounds))
        print(rows[-1], flush=True)
        options.out.write_text("[\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]\n", encoding="utf-8")


if __name__ == "__main__":
    main()
