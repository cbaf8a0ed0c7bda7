"""The error of every estimator against the dimension, under four adversaries; the paper claims a flat curve.

    python benchmarks/dimension.py [--quick] [--json FILE] [--plot FILE]

Honest rows are standard Gaussian. The error is the distance from the mean of the honest rows, divided by that mean's
own distance from the truth, √(d / honest): at 1 the attack costs no more than the sampling noise. A rule is
dimension-free if its error, in these units or as a plain distance, does not grow.
"""

import argparse
import json
import sys

import numpy as np
from timing import table

from f2ed import estimators as e

N, MALICIOUS = 48, 4  # a twelfth, the largest share for which the theorem holds
CONTAMINATION = MALICIOUS / N


def rules():
    return {
        "Mean": e.Mean(),
        "Median": e.Median(),
        "TrimmedMean": e.TrimmedMean(CONTAMINATION),
        "MeaMed": e.MeaMed(CONTAMINATION),
        "Krum": e.Krum(CONTAMINATION),
        "MultiKrum": e.MultiKrum(CONTAMINATION),
        "Bulyan": e.Bulyan(CONTAMINATION),
        "GeometricMedian": e.GeometricMedian(),
        "CenteredClipping": e.CenteredClipping(),
        "NNM + TrimmedMean": e.NNM(CONTAMINATION, inner=e.TrimmedMean(CONTAMINATION)),
        "MDA": e.MDA(CONTAMINATION),
        "SMEA": e.SMEA(CONTAMINATION),
        "MoNNA": e.MoNNA(CONTAMINATION, trusted=N - 1),
        "DnC": e.DnC(CONTAMINATION),
        "NoRegret": e.NoRegret(CONTAMINATION),
        "FilterL2, sigma = 1": e.FilterL2(CONTAMINATION, sigma=1.0),
        "FilterL2 in sections": e.Sections(e.FilterL2(CONTAMINATION), size=1000),
        "FilterL2": e.FilterL2(CONTAMINATION),
    }


def far_shift(X, _honest, rng):
    """All malicious rows together, √d away in one random direction."""
    direction = rng.standard_normal(X.shape[1], dtype=np.float32)
    X[:MALICIOUS] += direction * np.float32(np.sqrt(X.shape[1]) / np.linalg.norm(direction))


def one_deviation(X, _honest, _rng):
    """One standard deviation in every coordinate: inconspicuous in each, √d long in all."""
    X[:MALICIOUS] += 1


def inner_product(X, honest, _rng):
    """The negative honest mean, scaled to norm √d: the sum points backwards."""
    X[:MALICIOUS] = -honest / np.linalg.norm(honest) * np.float32(np.sqrt(X.shape[1]))


def hidden(X, honest, rng):
    """All at one point, close enough that the variance they add stays below the honest rows' own.

    With m of n rows at distance z the variance along them grows by m/n (1 - m/n) z²; the honest rows' largest is about
    (1 + √(d / n))². This is the best that an attacker who knows FilterL2 can do.
    """
    share, largest = MALICIOUS / N, (1 + np.sqrt(X.shape[1] / N)) ** 2
    direction = rng.standard_normal(X.shape[1], dtype=np.float32)
    z = np.sqrt(0.9 * largest / (share * (1 - share)))
    X[:MALICIOUS] = honest + direction * np.float32(z / np.linalg.norm(direction))


ADVERSARIES = {"far shift": far_shift, "one deviation": one_deviation, "inner product": inner_product, "hidden": hidden}


def errors(d, adversary, repeats):
    """Return each rule's mean error over some draws, in units of the honest mean's own error."""
    totals = dict.fromkeys(rules(), 0.0)
    for seed in range(repeats):
        rng = np.random.default_rng([seed, d])
        X = rng.standard_normal((N, d), dtype=np.float32)
        honest = X[MALICIOUS:].mean(axis=0)
        ADVERSARIES[adversary](X, honest, rng)
        unit = np.linalg.norm(honest)
        for name, rule in rules().items():
            totals[name] += float(np.linalg.norm(rule(X).mean - honest) / unit) / repeats
    return totals


def _row(by_dimension, name, dimensions):
    """Return a rule's errors, and how its plain distance grows: the unit itself grows like √d."""
    ratios = [by_dimension[d][name] for d in dimensions]
    base, last = by_dimension[1000][name], ratios[-1]
    return [*ratios, last / base * np.sqrt(dimensions[-1] / 1000) if min(base, last) > 1e-4 else None]


def plot(results, dimensions, path):
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    shown = [
        "Mean",
        "Median",
        "TrimmedMean",
        "Krum",
        "GeometricMedian",
        "NNM + TrimmedMean",
        "FilterL2 in sections",
        "FilterL2",
    ]
    figure, axes = plt.subplots(1, 4, figsize=(16, 4.2), sharey=True)
    for panel, (adversary, by_dimension) in zip(axes, results.items(), strict=True):
        for name in shown:
            distances = [by_dimension[d][name] * np.sqrt(d / (N - MALICIOUS)) for d in dimensions]
            panel.plot(dimensions, distances, marker="o", label=name, linewidth=3 if name == "FilterL2" else 1.2)
        panel.set(xscale="log", yscale="symlog", title=adversary, xlabel="dimension d")
        panel.grid(alpha=0.3)
    axes[0].set_ylabel("distance from the honest mean")
    figure.legend(*axes[0].get_legend_handles_labels(), ncols=8, loc="lower center", fontsize=8, frameon=False)
    figure.tight_layout(rect=(0, 0.06, 1, 1))
    figure.savefig(path, dpi=120)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="up to d = 10,000")
    parser.add_argument("--json")
    parser.add_argument("--plot")
    options = parser.parse_args()
    dimensions = [10, 100, 1_000, 10_000] + ([] if options.quick else [100_000, 1_000_000])
    results = {}
    for adversary in ADVERSARIES:
        results[adversary] = {}
        for d in dimensions:
            print(f"  {adversary}, d = {d:,}", file=sys.stderr, flush=True)
            results[adversary][d] = errors(d, adversary, repeats=5 if d <= 10_000 else 1)
        print(f"### {adversary}: error over the honest mean's own error, n = {N}, {MALICIOUS} malicious\n")
        header = ["rule", *(f"d = {d:,}" for d in dimensions), "distance grows from d = 1,000 by"]
        table(header, [[name, *_row(results[adversary], name, dimensions)] for name in rules()])
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:  # noqa: PTH123
            json.dump(results, file, indent=1)
    if options.plot:
        plot(results, dimensions, options.plot)


if __name__ == "__main__":
    main()
