"""A robust mean in three lines: 100 updates, 10 of them malicious, 50,000 coordinates.

Run it: python examples/01_robust_mean.py
"""

import numpy as np

import f2ed


def main() -> None:
    rng = np.random.default_rng(0)
    honest = rng.normal(1.0, 0.5, (90, 50_000))
    # The malicious rows agree with each other, and each of their coordinates is unremarkable by itself.
    malicious = np.full((10, 50_000), 0.5)
    updates = np.concatenate([honest, malicious])

    for estimator in (f2ed.Mean(), f2ed.Median(), f2ed.Krum(contamination=0.1), f2ed.FilterL2(contamination=0.1)):
        estimate = estimator(updates)
        error = np.linalg.norm(estimate.mean - honest.mean(0))
        weight = "" if estimate.weights is None else f", weight on malicious rows {estimate.weights[90:].sum():.1%}"
        print(f"{type(estimator).__name__:>9}: off by {error:6.2f}{weight}")

    estimate = f2ed.FilterL2(contamination=0.1)(updates)
    print(f"The filter removed {int((estimate.weights == 0).sum())} rows and stopped because {estimate.stopped}.")


if __name__ == "__main__":
    main()
