"""Analytics over the clients' data without a model: sums, means and histograms that are added up under masks.

On the client, an app whose evaluating function returns what the authority named (`f2ed roster sign --metric`):

    app = ClientApp(mods=[protect])

    @app.evaluate()
    def count(message, context):
        ages = load_ages()
        found = {"patients": float(len(ages)), "ages": histogram(ages, [0, 20, 40, 60, 80, 120])}
        return Message(RecordDict({"metrics": MetricRecord(found)}), reply_to=message)

On the server:

    measured = F2ed(roster=…).measure(grid)
    measured.total("ages")
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from f2ed.core.errors import ConfigError
from f2ed.deployment.masked_metrics import Measured, MetricRule

__all__ = ["Measured", "MetricRule", "histogram"]


def histogram(values: npt.ArrayLike, edges: Sequence[float]) -> list[float]:
    """Return how many values lie in each bin, the last of which includes its upper edge; values beyond count nowhere.

    The authority signs the same number of bins, as in `ages=0..1000x5` for six edges.
    """
    if len(edges) < 2 or sorted(set(edges)) != list(edges):
        raise ConfigError(f"the edges {list(edges)} make no bins; give two or more, in ascending order")
    counts, _ = np.histogram(np.asarray(values, np.float64), bins=np.asarray(edges, np.float64))
    return [float(count) for count in counts]
