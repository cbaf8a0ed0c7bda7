"""What a node tries at every start: that this Flower refuses a stranger's app, by the way on which apps arrive."""

import hashlib
import logging
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import flwr
from flwr.app import Message, Metadata, RecordDict
from flwr.app.message import make_message
from flwr.common.constant import ErrorCode
from flwr.supercore.fab import Fab
from flwr.supercore.object_store import ObjectStoreFactory
from flwr.supercore.run import Run
from flwr.supernode import fleet_http_client, start_client_internal
from flwr.supernode.nodestate import NodeState, NodeStateFactory

from f2ed.core.errors import ConfigError
from f2ed.flower.pinning import Gate

__all__ = ["check_flower", "deliver"]

_RUN, _NODE = 7, 1


def check_flower(gate: Gate) -> None:
    """Raise `ConfigError` if this Flower would store a stranger's app, or follow the server to another host."""
    content = os.urandom(64)
    digest = hashlib.sha256(content).hexdigest()
    run = replace(Run.create_empty(_RUN), fab_id="stranger/app", fab_version="1.0.0", fab_hash=digest)
    loggers = [logging.getLogger(name) for name in ("flwr", "f2ed.flower")]
    before = [each.disabled for each in loggers]
    for each in loggers:
        each.disabled = True
    try:
        state = deliver(gate, run, Fab(digest, content, {"valid_license": "server"}))
    finally:
        for each, disabled in zip(loggers, before, strict=True):
            each.disabled = disabled
    replies = state.get_messages_legacy(is_reply=True)
    refused = [each for each in replies if each.has_error() and each.error.code == ErrorCode.INVALID_FAB]
    if len(refused) != 1 or state.get_run(_RUN) or state.get_fab(digest) or list(state.get_tasks()):
        raise ConfigError(f"flwr {flwr.__version__} does not refuse a stranger's app; the node is not started")
    client = fleet_http_client.FleetHttpClient("https://127.0.0.1")
    try:
        if client._client.follow_redirects:  # noqa: SLF001  Flower has no setting for it
            raise ConfigError(f"flwr {flwr.__version__} follows redirects to other hosts; the node is not started")
    finally:
        client.close()


def deliver(gate: Gate, run: Run, fab: Fab) -> NodeState:
    """Let Flower receive one message of a run, as from a SuperLink that sends this; return the node's state."""
    metadata = Metadata(_RUN, "message", _NODE, _NODE, "", "", time.time(), 60.0, "train")
    message = make_message(metadata, RecordDict())

    @contextmanager
    def connect() -> Iterator[tuple[Any, ...]]:
        def receive() -> tuple[Message, None]:
            return message, None

        yield _NODE, receive, None, lambda _run: run, lambda _hash, _run: fab, None, None, None

    stores = ObjectStoreFactory()
    state: NodeState = NodeStateFactory(objectstore_factory=stores).state()
    state.set_node_id(_NODE)
    with gate.guard(connect)() as (_, receive, _send, get_run, get_fab, pull, _push, confirm):
        start_client_internal._pull_and_store_message(  # noqa: SLF001  the way on which apps arrive
            state, stores.store(), {}, receive, get_run, get_fab, pull, confirm, gate.trusted
        )
    return state
