"""The server: a robust mean over the shards, and beside it what a plain mean of the same shards would have done."""

import numpy as np
from flwr.app import Array, ArrayRecord, Context, MetricRecord
from flwr.serverapp import Grid, ServerApp

from blobs.task import CLASSES, FEATURES, Floats, accuracy
from f2ed import Estimate, FilterL2
from f2ed.flower import F2ed

app = ServerApp()


class Compared:
    """A filter that remembers the plain mean of what it was given."""

    def __init__(self, epsilon: float) -> None:
        self.epsilon = epsilon
        self.plain: Floats = np.zeros(CLASSES * FEATURES, np.float32)

    def __call__(self, means: Floats) -> Estimate:
        """Return the filter's estimate."""
        self.plain = means.mean(axis=0)
        return FilterL2(contamination=self.epsilon)(means)


@app.main()
def main(grid: Grid, context: Context) -> None:
    settings = context.run_config
    estimator = Compared(float(settings["epsilon"]))
    strategy = F2ed(roster=settings["f2ed-roster"], estimator=estimator, min_crowd=3, audit=settings["f2ed-audit"])
    plan = strategy.roster.plan(0)
    for client in range(int(settings["malicious"])):
        print(f"f2ed: client {client} is malicious, in shard {plan.shard_of(client)}; the server does not know")
    start = np.zeros((FEATURES, CLASSES), np.float32)
    before = start

    def evaluate(number: int, arrays: ArrayRecord) -> MetricRecord:
        nonlocal before
        weights = arrays["weights"].numpy()
        found = {"accuracy": accuracy(weights)}
        if number:
            found["with-a-plain-mean"] = accuracy(before + estimator.plain.reshape(start.shape))
        before = weights
        return MetricRecord(found)

    strategy.start(
        grid=grid,
        initial_arrays=ArrayRecord({"weights": Array(start)}),
        num_rounds=int(settings["num-rounds"]),
        evaluate_fn=evaluate,
    )
