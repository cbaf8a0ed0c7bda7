"""What a node knows by itself, from Flower's context: its identity, and in simulations its state.

Flower may run two messages of a node at the same time, and sends a reply before it stores `context.state`. A deployed
node therefore keeps its state in a file. Flower's simulation engine runs one message of a node at a time and stores
first; there `context.state` is enough.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import final

import msgspec
from flwr.app import ConfigRecord, Context

from f2ed.deployment.identity import Identity, identify
from f2ed.deployment.state_store import Kept, decode_kept
from f2ed.flower.wire import STATE

__all__ = ["ContextStore", "identity_of"]


def identity_of(context: Context) -> Identity:
    """Read who this node is, or refuse to take part."""
    return identify(
        context.node_config, context.run_config, simulated=_in_simulation, simulation_store=ContextStore(context)
    )


@final
class ContextStore:
    """Keeps the state in `context.state`, for simulations."""

    def __init__(self, context: Context) -> None:
        self._context = context

    @contextmanager
    def open(self, job: str) -> Iterator["ContextStore"]:  # noqa: ARG002  a context belongs to one run
        """There is nothing to lock."""
        yield self

    def read(self) -> Kept:
        """Return what was kept."""
        record = self._context.state.config_records.get(STATE)
        return Kept() if record is None else decode_kept(record["kept"], "context.state")

    def write(self, kept: Kept) -> None:
        """Replace what was kept."""
        self._context.state[STATE] = ConfigRecord({"kept": msgspec.msgpack.encode(kept)})


def _in_ray() -> bool:
    """Return whether this is a worker of Flower's simulation engine."""
    ray = sys.modules.get("ray")
    return ray is not None and bool(ray.is_initialized())


_in_simulation: Callable[[], bool] = _in_ray
