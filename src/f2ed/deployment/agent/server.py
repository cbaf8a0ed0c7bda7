"""The agent itself: what it answers in a conversation with an app."""

import socket
from collections.abc import Callable, Mapping
from typing import Any, final

from f2ed.core.errors import ConfigError
from f2ed.deployment.agent.frames import Failed, Update, receive, receive_floats, send
from f2ed.deployment.agent.listener import Listener
from f2ed.deployment.asked import Asked, Need, Vector
from f2ed.deployment.identity import deployed
from f2ed.deployment.masked_metrics import width
from f2ed.deployment.node_step import answered
from f2ed.deployment.running_app import APP

__all__ = ["Agent"]

_MOST = 2**26
"""Bytes of a frame from an app. Updates are no frames."""
_PATIENCE = 20.0
"""Seconds for a description; training may take any time."""
_UNKNOWN = "unknown"


@final
class Agent(Listener):
    """Answers processes of one user. `app_of` returns the SHA-256 of the app of a run, as the launcher approved it."""

    def __init__(self, settings: Mapping[str, Any], app_of: Callable[[int], bytes | None], *, uid: int) -> None:
        super().__init__(uid=uid)
        self._settings, self._app_of = dict(settings), app_of

    def _converse(self, app: socket.socket) -> None:
        app.settimeout(_PATIENCE)
        asked: Asked = receive(app, Asked, most=_MOST)
        app.settimeout(None)
        sha256 = self._app_of(asked.run)
        launched = {APP: _UNKNOWN if sha256 is None else sha256.hex()}

        def train(need: Need) -> Vector:
            send(app, need)
            return _update(app, asked, need)

        send(app, answered(lambda: deployed(self._settings), launched, asked, train))


def _update(app: socket.socket, asked: Asked, need: Need) -> Vector:
    """Return the update that an app hands over. A copy: the app cannot change it once it is checked."""
    assert asked.given is not None  # noqa: S101  an update is asked for on an input alone
    wanted = width(need.metrics) or asked.given.plan(need.buffers).coordinates
    answer: Update | Failed = receive(app, Update | Failed, most=_MOST)
    if isinstance(answer, Failed):
        raise ConfigError("training failed; the reason is in the log of the app's process")
    change = receive_floats(app, answer, wanted=wanted)
    if change is None:
        raise ConfigError(f"the app handed over {answer.count} coordinates; the model has {wanted}")
    return change
