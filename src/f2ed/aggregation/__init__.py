"""From clients to a robust mean: a secure sum in every shard, then an estimator over the shard means.

The server learns one mean per shard and no client's update; a shard that cannot be opened, or whose sum no honest
shard could have, is left out with its reason, and the round goes on.
"""

from f2ed.aggregation.audit import Audit, ShardAudit
from f2ed.aggregation.client import contribution
from f2ed.aggregation.loss import loss
from f2ed.aggregation.means import EpochKeys, Exchange, ShardMeans, robust_secure_mean, shard_means
from f2ed.aggregation.price import Price, price
from f2ed.aggregation.task import Protocol, Task, shard_terms

__all__ = [
    "Audit",
    "EpochKeys",
    "Exchange",
    "Price",
    "Protocol",
    "ShardAudit",
    "ShardMeans",
    "Task",
    "contribution",
    "loss",
    "price",
    "robust_secure_mean",
    "shard_means",
    "shard_terms",
]
