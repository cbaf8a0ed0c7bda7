"""The app's side of the conversation with an agent."""

import socket
from logging import ERROR, getLogger

from f2ed.core.errors import ConfigError, GoneError
from f2ed.deployment.agent.frames import Failed, receive, send, send_floats
from f2ed.deployment.asked import Asked, Need, Reply, Train, Vector

__all__ = ["AGENT", "ask_agent", "converse"]

_log = getLogger("f2ed.deployment")

AGENT = "f2ed-agent"
"""The setting of a node that names its agent's socket. `f2ed node` sets it."""
_MOST = 2**44


def ask_agent(path: str, asked: Asked, train: Train) -> Reply:
    """Put a message before the agent, train if it says so, and return its reply."""
    try:
        with socket.socket(socket.AF_UNIX) as agent:
            agent.connect(path)
            return converse(agent, asked, train)
    except (OSError, GoneError) as error:
        raise ConfigError(
            f"the node's agent at {path} gave no answer ({error}); its own log is that of f2ed node, which must be "
            "running and allow this user"
        ) from None


def converse(agent: socket.socket, asked: Asked, train: Train) -> Reply:
    """Have the conversation over a connected socket."""
    send(agent, asked)
    answer: Need | Reply = receive(agent, Need | Reply, most=_MOST)
    if isinstance(answer, Reply):
        return answer
    change = _trained(train, answer)
    if change is None:
        send(agent, Failed())
    else:
        send_floats(agent, change)
        del change
    reply: Reply = receive(agent, Reply, most=_MOST)
    return reply


def _trained(train: Train, need: Need) -> Vector | None:
    """Return the update, or None if anything failed: the agent is told no more, and the server nothing."""
    try:
        return train(need)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001  whatever the user's code may raise, SystemExit among it
        _log.log(ERROR, "f2ed: training failed, so random words leave in place of the update", exc_info=error)
    return None
