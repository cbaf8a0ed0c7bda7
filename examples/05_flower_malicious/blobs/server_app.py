"""The server: a robust mean over the shards, compared with a plain mean of the same shards."""

import numpy as np
from flwr.app import Array, ArrayRecord, Context, MetricRecord
from flwr.serverapp import Grid, ServerApp

from blobs.task import CLASSES, FEATURES, Floats, accuracy
from f2ed import Estimate, FilterL2
from f2ed.estimators import Estimator
from f2ed.flower import F2ed

app = ServerApp()


class Compared(Estimator, frozen=True, tag="compared"):
    """A filter that also remembers the plain mean of what it was given."""

    title = "FilterL2"
    family = "spectral"
    paper = "Wang et al., 2021"

    inner: FilterL2
    plain: list[Floats]

    def estimate(self, rows) -> Estimate:  # noqa: ANN001  the shard means, as estimators see them
        """Return the filter's estimate."""
        self.plain.append(rows.combine(np.full(rows.n, 1 / rows.n)))
        return self.inner.estimate(rows)


@app.main()
def main(grid: Grid, context: Context) -> None:
    settings = context.run_config
    estimator = Compared(FilterL2(contamination=float(settings["contamination"])), [])
    strategy = F2ed(roster=settings["f2ed-roster"], estimator=estimator, min_crowd=3, records=settings["f2ed-records"])
    assignment = strategy.roster.assignment(0)
    for client in range(int(settings["malicious"])):
        print(f"f2ed: client {client} is malicious, in shard {assignment.shard_of(client)}; the server cannot know")
    start = np.zeros((FEATURES, CLASSES), np.float32)
    before = start

    def evaluate(number: int, arrays: ArrayRecord) -> MetricRecord:
        nonlocal before
        weights = arrays["weights"].numpy()
        found = {"accuracy": accuracy(weights)}
        if number:
            found["with-a-plain-mean"] = accuracy(before + estimator.plain[-1].reshape(start.shape))
        before = weights
        return MetricRecord(found)

    strategy.start(
        grid=grid,
        initial_arrays=ArrayRecord({"weights": Array(start)}),
        num_rounds=int(settings["num-rounds"]),
        evaluate_fn=evaluate,
    )
