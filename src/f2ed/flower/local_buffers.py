"""Buffers that stay on the node (FedBN): training sees them in place of the server's.

They are kept between rounds in `context.state`, which Flower stores for each node and run. They are the node's own,
like its data, and nothing of them leaves it.
"""

from flwr.app import ArrayRecord, Context

from f2ed.deployment.train_input import NamedArray, TrainInput
from f2ed.flower.wire import BUFFERS
from f2ed.protocol.aggregation import Buffers

__all__ = ["keep_local_buffers", "with_local_buffers"]


def with_local_buffers(context: Context, given: TrainInput, rules: Buffers | None) -> TrainInput:
    """Return an input with this node's buffers in place of the server's, where it has any of the same form."""
    kept = context.state.array_records.get(BUFFERS)
    if kept is None or rules is None or rules.policy != "local":
        return given
    return given._replace(arrays=tuple(_mine(each, kept) for each in given.arrays))


def keep_local_buffers(context: Context, after: ArrayRecord, rules: Buffers | None, staying: ArrayRecord) -> None:
    """Keep the buffers as training left them, where the roster leaves them here."""
    if rules is not None and rules.policy == "local":
        context.state[BUFFERS] = ArrayRecord({name: after[name] for name in staying})


def _mine(given: NamedArray, kept: ArrayRecord) -> NamedArray:
    mine = kept.get(given.name)
    if mine is None or (mine.dtype, tuple(mine.shape), mine.stype) != (given.dtype, given.shape, given.stype):
        return given
    return given._replace(data=mine.data)
