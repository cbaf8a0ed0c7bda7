"""What a node tries at every start: that this Flower refuses a stranger's app, by the way on which apps arrive."""

import hashlib
import logging
import os
import time
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import flwr
from flwr.app import Message, Metadata, RecordDict
from flwr.app.message import make_message
from flwr.common.constant import ErrorCode
from flwr.supercore.fab import Fab
from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects, get_object_tree
from flwr.supercore.object_store import ObjectStoreFactory
from flwr.supercore.run import Run
from flwr.supernode import fleet_http_client, start_client_internal
from flwr.supernode.nodestate import NodeState, NodeStateFactory

from f2ed.core.errors import ConfigError
from f2ed.flower.pinning import Gate

__all__ = ["check_flower", "deliver"]

_log = logging.getLogger("f2ed.flower")
_RUN, _NODE = 7, 1


def check_flower(gate: Gate) -> None:
    """Raise `ConfigError` if this Flower would store a stranger's app, or follow the server to another host."""
    if gate.unpinned:
        _log.warning("f2ed: THE ROSTER APPROVES ANY APP: the server can run any code on this node")
    elif not _refuses_strangers(gate):
        raise ConfigError(f"flwr {flwr.__version__} does not refuse a stranger's app; the node is not started")
    client = fleet_http_client.FleetHttpClient("https://127.0.0.1")
    try:
        if client._client.follow_redirects:  # noqa: SLF001  Flower has no setting for it
            raise ConfigError(f"flwr {flwr.__version__} follows redirects to other hosts; the node is not started")
    finally:
        client.close()


def deliver(gate: Gate, run: Run, fab: Fab) -> NodeState:
    """Let Flower receive one message of a run, as from a SuperLink that sends this; return the node's state."""
    message = make_message(Metadata(_RUN, "", _NODE, _NODE, "", "", time.time(), 60.0, "train"), RecordDict())
    message.metadata.__dict__["_message_id"] = message.object_id
    parts = get_all_nested_objects(message)

    @contextmanager
    def connect() -> Iterator[tuple[Any, ...]]:
        def receive() -> tuple[Message, Any]:
            return message, get_object_tree(message)

        def pull(_run: int, name: str) -> bytes:
            return bytes(parts[name].deflate())

        yield _NODE, receive, None, lambda _run: run, lambda _hash, _run: fab, pull, None, lambda _run, _message: None

    stores = ObjectStoreFactory()
    state: NodeState = NodeStateFactory(objectstore_factory=stores).state()
    state.set_node_id(_NODE)
    with gate.guard(connect)() as (_, receive, _send, get_run, get_fab, pull, _push, confirm):
        start_client_internal._pull_and_store_message(  # noqa: SLF001  the way on which apps arrive
            state, stores.store(), {}, receive, get_run, get_fab, pull, confirm, gate.trusted
        )
    return state


def _refuses_strangers(gate: Gate) -> bool:
    content = os.urandom(64)
    digest = hashlib.sha256(content).hexdigest()
    run = replace(Run.create_empty(_RUN), fab_id="stranger/app", fab_version="1.0.0", fab_hash=digest)
    loggers = [logging.getLogger(name) for name in ("flwr", "f2ed.flower")]
    before = [each.disabled for each in loggers]
    for each in loggers:
        each.disabled = True
    try:
        state = deliver(gate, run, Fab(digest, content, {"valid_license": "server"}))
    except (ValueError, zipfile.BadZipFile):  # It was about to be unpacked.
        return False
    finally:
        for each, disabled in zip(loggers, before, strict=True):
            each.disabled = disabled
    replies = state.get_messages_legacy(is_reply=True)
    codes = [each.error.code for each in replies if each.has_error()]
    stored = state.get_run(_RUN) or state.get_fab(digest) or list(state.get_tasks())
    return codes == [ErrorCode.INVALID_FAB] and not stored
