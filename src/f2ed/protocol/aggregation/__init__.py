"""From clients to a robust mean: a secure sum in every shard, then an estimator over the shard means.

The server learns one mean per shard and no client's update; a shard that cannot be opened, or whose sum no honest
shard could have, is left out with its reason, and the round goes on.
"""

from f2ed.protocol.aggregation.audit import Audit, ShardAudit
from f2ed.protocol.aggregation.buffers import (
    BUFFER_NAMES,
    ArrayClip,
    BufferPolicy,
    Buffers,
    UpdatePlan,
    plan_update,
)
from f2ed.protocol.aggregation.contribution import check_length, contribution, random_words
from f2ed.protocol.aggregation.conversation import Conversation, Exchange, each_alone
from f2ed.protocol.aggregation.key_setup import EpochKeys, KeySetup, key_holders, set_up_keys
from f2ed.protocol.aggregation.round import ShardMeans, robust_secure_mean, shard_means
from f2ed.protocol.aggregation.server_optimizer import (
    AnyServerOptimizer,
    FedAdagrad,
    FedAdam,
    FedAvg,
    FedAvgM,
    FedYogi,
    OptimizerState,
    ServerOptimizer,
)
from f2ed.protocol.aggregation.step import ServerStep, StepResult, StepState
from f2ed.protocol.aggregation.task import Protocol, Task, opening_cost, row_weights, shard_terms, terms_of

__all__ = [
    "BUFFER_NAMES",
    "AnyServerOptimizer",
    "ArrayClip",
    "Audit",
    "BufferPolicy",
    "Buffers",
    "Conversation",
    "EpochKeys",
    "Exchange",
    "FedAdagrad",
    "FedAdam",
    "FedAvg",
    "FedAvgM",
    "FedYogi",
    "KeySetup",
    "OptimizerState",
    "Protocol",
    "ServerOptimizer",
    "ServerStep",
    "ShardAudit",
    "ShardMeans",
    "StepResult",
    "StepState",
    "Task",
    "UpdatePlan",
    "check_length",
    "contribution",
    "each_alone",
    "key_holders",
    "opening_cost",
    "plan_update",
    "random_words",
    "robust_secure_mean",
    "row_weights",
    "set_up_keys",
    "shard_means",
    "shard_terms",
    "terms_of",
]
