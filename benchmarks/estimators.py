"""The speed of the robust means relative to the limits of the machine and to other libraries, as ratios in one run.

    python benchmarks/estimators.py            n = 20, 25, 100 and d = 50k, 300k, 1M, 10M
    python benchmarks/estimators.py --quick    n = 25, d = 50k and 300k
    python benchmarks/estimators.py --sizes 20x50000 100x300000
    python benchmarks/estimators.py --device cuda
    python benchmarks/estimators.py --sizes 100x10000000 --only Fence Dual --cpu-time    on a busy machine

The limits: *mean* is the fastest plain mean (reading all rows once); *Gram* one BLAS product X Xᵀ; *sort* one pass that
sorts every column, which two-stage rules need beside the Gram matrix. Peers, where
installed (`make bench` does it): ByzFL 0.0.11 on NumPy and on torch, Flower's aggregate functions, and FilterL2 as
written in the paper. A ratio to a peer is how many times faster f2ed is.
"""

import argparse
import importlib.util
import json
import math
import sys
import time
import types
from functools import partial

import numpy as np
import torch
from timing import in_fresh_process, milliseconds, peak_bytes, table

from f2ed import estimators as e


def cases(n):
    """Return each rule with its counterparts in ByzFL and Flower, at the largest f that all of them accept."""
    f = {20: 4, 25: 5, 100: 10}[n]
    few = 2  # for rules that compare all subsets
    contamination, rare = f / n, few / n
    return [
        ("Mean", e.Mean(), ("Average", {}), None, "columns"),
        ("FilterL2", e.FilterL2(contamination), ("CAF", {"f": f}), None, "gram"),
        ("FilterL2, worst case", e.FilterL2(contamination, sigma=1e-9), None, None, "gram"),
        ("Fence", e.Fence(contamination=contamination), None, None, "sort"),
        ("Fence, trim", e.Fence(contamination=contamination, cut="trim"), None, None, "sort"),
        ("Fence, nearest", e.Fence(contamination=contamination, cut="nearest"), None, None, "sort"),
        ("Fence alone", e.Fence(contamination=contamination, select=False), None, None, "sort"),
        ("DualFilter", e.DualFilter(contamination), None, None, "sort"),
        (
            "DualFilter + fence",
            e.Fence(contamination=contamination, inner=e.DualFilter(contamination)),
            None,
            None,
            "sort",
        ),
        ("HardWeights", e.HardWeights(e.FilterL2(contamination)), None, None, "gram"),
        ("SignVote + FilterL2", e.SignVote(e.FilterL2(contamination)), None, None, "gram"),
        ("NoRegret", e.NoRegret(contamination), None, None, "gram"),
        ("Krum", e.Krum(contamination), ("Krum", {"f": f}), ("krum", f), "gram"),
        ("MultiKrum", e.MultiKrum(contamination), ("MultiKrum", {"f": f}), None, "gram"),
        ("GeometricMedian", e.GeometricMedian(), ("GeometricMedian", {}), None, "gram"),
        ("MDA (f = 2)", e.MDA(rare), ("MDA", {"f": few}), None, "gram"),
        ("SMEA (f = 2)", e.SMEA(rare), ("SMEA", {"f": few}), None, "gram"),
        ("NNM + mean", e.NNM(contamination, inner=e.Mean()), ("NNM", {"f": f}), None, "gram"),
        ("NNM + FilterL2", e.NNM(contamination, inner=e.FilterL2(contamination)), None, None, "gram"),
        ("Median", e.Median(), ("Median", {}), ("median", f), "columns"),
        ("TrimmedMean", e.TrimmedMean(contamination), ("TrMean", {"f": f}), ("trimmed", contamination), "columns"),
        ("MeaMed", e.MeaMed(contamination), ("Meamed", {"f": f}), None, "columns"),
        ("Bulyan", e.Bulyan(min(f, (n - 3) // 4) / n), None, ("bulyan", min(f, (n - 3) // 4)), "gram"),
        ("CenteredClipping", e.CenteredClipping(100.0), ("CenteredClipping", {}), None, "columns"),
        ("MoNNA", e.MoNNA(contamination), ("MoNNA", {"f": f}), None, "columns"),
        ("DnC", e.DnC(contamination), None, None, "columns"),
    ]


# Peers ---------------------------------------------------------------------------------------------


def byzfl():
    """Load ByzFL's aggregators without its package file, which needs torchvision."""
    if "byzfl" not in sys.modules:
        found = importlib.util.find_spec("byzfl")
        if found is None:
            return None
        package = types.ModuleType("byzfl")
        package.__path__ = list(found.submodule_search_locations)
        sys.modules["byzfl"] = package
    from byzfl.aggregators import aggregators, preaggregators

    return types.SimpleNamespace(**{**vars(aggregators), **vars(preaggregators)})


def peer_byzfl(name, settings, X):
    library = byzfl()
    if library is None:
        return None
    if name == "NNM":
        mixing, average = library.NNM(**settings), library.Average()
        return lambda: average(mixing(X))
    rule = getattr(library, name)(**settings)
    return lambda: rule(X)


def peer_flower(name, setting, X):
    try:
        from flwr.server.strategy import aggregate
    except ImportError:
        return None
    results = [([row], 1) for row in X]
    return {
        "krum": lambda: aggregate.aggregate_krum(results, setting, 0),
        "median": lambda: aggregate.aggregate_median(results),
        "trimmed": lambda: aggregate.aggregate_trimmed_avg(results, setting),
        "bulyan": lambda: aggregate.aggregate_bulyan(list(results), setting, aggregate.aggregate_krum, to_keep=0),
    }[name]


def textbook_section(n, d=1000):
    """Time FilterL2 as the paper writes it, averaged outer products and a dense eigenproblem, on one section."""
    X = np.random.default_rng(0).normal(size=(n, d))
    f = n // 5

    def work():
        rows, c = X, np.ones(n)
        for _ in range(2 * f):
            mu = np.average(rows, axis=0, weights=c)
            cov = sum(w * np.outer(x - mu, x - mu) for w, x in zip(c, rows, strict=True)) / c.sum()
            tau = ((rows - mu) @ np.linalg.eigh(cov)[1][:, -1]) ** 2
            worst = tau.argmax()
            c = c * (1 - tau / tau[worst])
            rows, c = np.delete(rows, worst, axis=0), np.delete(c, worst)

    return milliseconds(work, budget=0.1, most=1)


# Measuring -----------------------------------------------------------------------------------------


def matrix(n, d):
    X = np.empty((n, d), np.float32)
    np.random.default_rng(0).standard_normal(out=X, dtype=np.float32)
    X[: n // 10] += 1
    return X


def on(device, work):
    """Wait for the device, so that the stopwatch sees the work done."""
    if device == "cpu":
        return work
    return lambda: (work(), torch.cuda.synchronize())


def measure(n, d, device, *, peers, only=(), milliseconds=milliseconds):
    X = matrix(n, d)
    data = X if device == "cpu" else torch.from_numpy(X).to(device)
    ones = np.full(n, 1 / n, np.float32) if device == "cpu" else torch.full((n,), 1 / n, device=device)
    mean = min(milliseconds(on(device, lambda: data.mean(0))), milliseconds(on(device, lambda: ones @ data)))
    gram = milliseconds(on(device, lambda: data @ data.T))
    sort = milliseconds(on(device, lambda: e.Median()(data)))
    limits = {"gram": gram + 2 * mean, "sort": gram + sort, "columns": mean}
    rows = []
    for name, ours, theirs, flower, family in cases(n):
        if only and not any(word.lower() in name.lower() for word in only):
            continue
        time = milliseconds(on(device, lambda rule=ours: rule(data)))
        limit = limits[family]
        row = {"rule": name, "n": n, "d": d, "ms": time, "mean": time / mean, "limit": time / limit, "family": family}
        # They try all subsets, or make n matrices of n rows.
        endless = (name.startswith(("MDA", "SMEA")) and (n > 25 or d > 300_000)) or (
            name == "NNM + mean" and n * n * d > 1e9
        )
        if peers and theirs and not endless and (work := peer_byzfl(*theirs, X)):
            row["byzfl_numpy"] = milliseconds(work) / time
            row["byzfl_torch"] = milliseconds(peer_byzfl(*theirs, torch.from_numpy(X))) / time
        if peers and flower and (work := peer_flower(*flower, X)):
            row["flower"] = milliseconds(work) / time
        if device != "cpu" and d <= 1_000_000:
            on_cpu = ours(X).mean
            row["off_cpu"] = float(np.linalg.norm(ours(data).mean.cpu().numpy() - on_cpu) / np.linalg.norm(on_cpu))
        rows.append(row)
        print(f"  n={n} d={d} {name}: {time:.2f} ms", file=sys.stderr, flush=True)
    return {"n": n, "d": d, "device": device, "mean_ms": mean, "gram_ms": gram, "sort_ms": sort, "rules": rows}


def show(result):
    print(
        f"### n = {result['n']}, d = {result['d']:,} on {result['device']}: plain mean {result['mean_ms']:.2f} ms, ",
        end="",
    )
    print(f"one Gram product {result['gram_ms']:.2f} ms, one sort pass (Median) {result['sort_ms']:.2f} ms\n")
    keys = ["ms", "mean", "limit", "byzfl_numpy", "byzfl_torch", "flower"]
    header = ["rule", "ms", "× mean", "× limit", "ByzFL NumPy / ours", "ByzFL torch / ours", "Flower / ours"]
    if result["device"] != "cpu":
        keys, header = (
            ["ms", "mean", "limit", "off_cpu"],
            ["rule", "ms", "× mean", "× limit", "differs from the CPU by"],
        )
    table(header, [[row["rule"], *(row.get(key) for key in keys)] for row in result["rules"]])


def peak(n, d):
    """Return the peak memory of some rules over the size of the input, each in a fresh process."""
    rules = ["Mean", "FilterL2", "Krum", "Median", "TrimmedMean", "MeaMed"]
    return {rule: in_fresh_process(__file__, "--peak", rule, n, d)["ratio"] for rule in rules}


def peak_of(name, n, d):
    rule = next(case[1] for case in cases(n) if case[0] == name)
    rule(matrix(n, 1000))  # the memory of the libraries themselves
    before = peak_bytes()
    X = matrix(n, d)
    rule(X)
    print(json.dumps({"ratio": (peak_bytes() - before) / X.nbytes}))


def growth(results):
    """Return the exponents of each rule's time in d (at n = 25) and in n (25 to 100, at d = 1M)."""
    times = {(row["rule"], row["n"], row["d"]): row["ms"] for result in results for row in result["rules"]}
    rules = [row["rule"] for row in results[0]["rules"]]

    def slope(rule, a, b, axis):
        if (rule, *a) not in times or (rule, *b) not in times:
            return None
        return math.log(times[rule, *b] / times[rule, *a]) / math.log(b[axis] / a[axis])

    return [
        [r, slope(r, (25, 300_000), (25, 10_000_000), 1), slope(r, (25, 1_000_000), (100, 1_000_000), 0)] for r in rules
    ]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json", help="write all figures to this file")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--sizes", nargs="+", metavar="NxD", help="such as 25x300000, instead of all")
    parser.add_argument("--only", nargs="+", default=[], metavar="WORD", help="rules whose name contains one of these")
    parser.add_argument("--cpu-time", action="store_true", help="count CPU time of all threads")
    parser.add_argument("--peak", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.peak:
        peak_of(options.peak[0], int(options.peak[1]), int(options.peak[2]))
        return
    sizes = [(25, 50_000), (25, 300_000)] if options.quick else [
        (20, 50_000), (25, 50_000), (100, 50_000), (20, 300_000), (25, 300_000), (100, 300_000),
        (25, 1_000_000), (100, 1_000_000), (25, 10_000_000),
    ]  # fmt: skip
    if options.device != "cpu":
        sizes = [(25, 1_000_000), (100, 1_000_000), (100, 10_000_000)]
    if options.sizes:
        sizes = [tuple(map(int, size.split("x"))) for size in options.sizes]
    results = []
    timed = partial(milliseconds, clock=time.process_time) if options.cpu_time else milliseconds
    for n, d in sizes:
        peers = options.device == "cpu" and d <= 1_000_000
        results.append(measure(n, d, options.device, peers=peers, only=options.only, milliseconds=timed))
        show(results[-1])
    figures = {"results": results}
    ours = next((row["ms"] for result in results for row in result["rules"]
                 if (row["rule"], row["n"], row["d"]) == ("FilterL2, worst case", 25, 300_000)), None)  # fmt: skip
    if options.device == "cpu" and ours:
        section = textbook_section(25)
        figures["textbook"] = {"section_ms": section, "times_faster": section * 300 / ours}
        times = f"{figures['textbook']['times_faster']:,.0f}"
        print(f"FilterL2 as written in the paper: {section:,.0f} ms for one section of 1,000 coordinates at n = 25;")
        print(f"300 sections (d = 300k) take {times} times as long as the exact one on the whole vector.\n")
    if options.device == "cpu" and not (options.quick or options.sizes):
        figures["peak"] = peak(25, 10_000_000)
        table(["peak memory / input, n = 25, d = 10M", ""], list(figures["peak"].items()))
        figures["growth"] = growth(results)
        table(["exponent of the growth in time", "in d (300k to 10M)", "in n (25 to 100)"], figures["growth"])
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:  # noqa: PTH123
            json.dump(figures, file, indent=1)


if __name__ == "__main__":
    main()
