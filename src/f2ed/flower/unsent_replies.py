"""Keeps a SuperNode from falling one reply behind.

Flower 1.41 sends one reply after each message that it pulls, whichever is there. If a run ends while its message is
being pulled (the SuperLink was killed, the run was stopped), Flower ignores the message and leaves it in the node's
state: it is answered all the same, and that reply takes the turn of the next message's. From then on every reply leaves
one message late: the node is connected, and silent until somebody restarts it.
"""

from collections.abc import Callable
from typing import Any

from flwr.common.constant import Status, SubStatus
from flwr.supernode import start_client_internal

from f2ed.flower.replaced import replace

__all__ = ["answering_all", "catch_up", "dropping_ignored"]

Pull = Callable[..., int | None]
Push = Callable[..., None]

_UNFINISHED = (Status.PENDING, Status.STARTING, Status.RUNNING)


def catch_up() -> None:
    """Let this process's SuperNode answer every message in its turn, and none that it ignored."""
    pull: Pull = getattr(start_client_internal, "_pull_and_store_message", lambda *_, **__: None)
    push: Push = getattr(start_client_internal, "_push_messages", lambda *_, **__: None)
    replace(start_client_internal, "_pull_and_store_message", dropping_ignored(pull))
    replace(start_client_internal, "_push_messages", answering_all(push))


def dropping_ignored(pull: Pull) -> Pull:
    """Return a way to pull messages that leaves nothing of one that was ignored."""

    def pulled(state: Any, *others: Any, **named: Any) -> int | None:
        found = pull(state, *others, **named)
        if found is None and (ignored := _unanswered(state)):
            state.delete_messages(message_ids=list(ignored))
            for task in state.get_tasks(run_ids=sorted(set(ignored.values())), statuses=_UNFINISHED):
                state.finish_task(task.task_id, sub_status=SubStatus.FAILED, details="the run has ended")
        return found

    return pulled


def answering_all(push: Push) -> Push:
    """Return a way to push replies that goes on until every message has its own."""

    def pushed(state: Any, *others: Any, **named: Any) -> None:
        push(state, *others, **named)
        while _unanswered(state):
            push(state, *others, **named)

    return pushed


def _unanswered(state: Any) -> dict[str, int]:
    """Return the messages whose reply has not been sent, with their runs."""
    with state.lock_msg_store:
        metadata = [entry.message.metadata for entry in state.msg_store.values()]
    return {each.message_id: each.run_id for each in metadata if not each.reply_to_message_id}
