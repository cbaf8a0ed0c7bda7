"""Buffers that stay on the node (FedBN): training sees them in place of the server's.

They are kept between rounds in `context.state`, which Flower stores for each node and run. They are the node's own,
like its data, and nothing of them leaves it.
"""

from collections.abc import Iterable

from flwr.app import ArrayRecord, Context

from f2ed.deployment.train_input import NamedArray, TrainInput
from f2ed.flower.wire import BUFFERS

__all__ = ["keep_local_buffers", "with_local_buffers"]


def with_local_buffers(context: Context, given: TrainInput) -> TrainInput:
    """Return an input with this node's buffers in place of the server's, where it has any of the same form."""
    kept = context.state.array_records.get(BUFFERS)
    return given if kept is None else given._replace(arrays=tuple(_mine(each, kept) for each in given.arrays))


def keep_local_buffers(context: Context, after: ArrayRecord, names: Iterable[str]) -> None:
    """Keep the arrays of these names as training left them."""
    context.state[BUFFERS] = ArrayRecord({name: after[name] for name in names})


def _mine(given: NamedArray, kept: ArrayRecord) -> NamedArray:
    mine = kept.get(given.name)
    if mine is None or (mine.dtype, tuple(mine.shape), mine.stype) != (given.dtype, given.shape, given.stype):
        return given
    return given._replace(data=mine.data)
