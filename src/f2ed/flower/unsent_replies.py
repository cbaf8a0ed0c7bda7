"""Keeps a SuperNode from falling one reply behind.

Flower 1.41 sends one reply for each message that it pulls. If a run ends just then (the SuperLink was killed, the run
was stopped), its message is answered all the same, and that reply takes the turn of the next message's. From then on
every reply leaves one message late: the node is connected, and silent until somebody restarts it.
"""

from collections.abc import Callable
from typing import Any

from flwr.supernode import start_client_internal

from f2ed.flower.replaced import replace

__all__ = ["catch_up", "pulls_after"]

Pull = Callable[..., int | None]


def catch_up() -> None:
    """Let this process's SuperNode send what it owes before it waits for another message."""
    pull: Pull = getattr(start_client_internal, "_pull_and_store_message", lambda **_: None)
    replace(start_client_internal, "_pull_and_store_message", pulls_after(pull))


def pulls_after(pull: Pull) -> Pull:
    """Return a way to pull messages that also returns a run if none came, and one of before is not answered yet."""

    def pulled(state: Any, *others: Any, **named: Any) -> int | None:
        found = pull(state, *others, **named)
        if found is not None:
            return found
        with state.lock_msg_store:
            owed = [entry.message.metadata.run_id for entry in state.msg_store.values()]
        return owed[0] if owed else None

    return pulled
