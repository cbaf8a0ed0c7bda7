"""The agent itself: a thread of the process that holds the key, and one for each conversation."""

import os
import socket
import struct
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from logging import getLogger
from pathlib import Path
from typing import Any, final

from f2ed.core.errors import ConfigError, GoneError
from f2ed.deployment.agent.frames import Failed, Update, receive, receive_floats, send
from f2ed.deployment.asked import Asked, Need, Vector
from f2ed.deployment.identity import deployed
from f2ed.deployment.masked_metrics import width
from f2ed.deployment.node_step import answered
from f2ed.deployment.running_app import APP

__all__ = ["Agent"]

_log = getLogger("f2ed.deployment")

_MOST = 2**26
"""Bytes of a frame from an app. Updates are no frames."""
_MOST_CONVERSATIONS = 8
_PATIENCE = 20.0
"""Seconds for a description; training may take any time."""
_UNKNOWN = "unknown"


@final
class Agent:
    """Answers processes of one user. `app_of` returns the SHA-256 of the app of a run, as the launcher approved it."""

    def __init__(self, settings: Mapping[str, Any], app_of: Callable[[int], bytes | None], *, uid: int) -> None:
        self._settings, self._app_of, self._uid = dict(settings), app_of, uid
        self._places = threading.BoundedSemaphore(_MOST_CONVERSATIONS)

    def __repr__(self) -> str:
        """Show no path of a key."""
        return f"Agent(uid={self._uid})"

    def listen(self, path: Path, *, mode: int = 0o600, owner: int = -1) -> None:
        """Take conversations on a new socket from now on, in the background."""
        path.unlink(missing_ok=True)
        server = socket.socket(socket.AF_UNIX)
        try:
            server.bind(str(path))
            os.chown(path, owner, -1)
            path.chmod(mode)
            server.listen(_MOST_CONVERSATIONS)
        except OSError as error:
            server.close()
            raise ConfigError(f"the agent's socket {path} cannot be made: {error}; choose another folder") from None
        threading.Thread(target=self._accept, args=(server,), daemon=True, name="f2ed-agent").start()

    def serve(self, app: socket.socket) -> None:
        """Have one conversation, and close it."""
        with app, suppress(BrokenPipeError, ConnectionResetError):
            try:
                self._converse(app)
            except (GoneError, TimeoutError) as error:
                _log.warning("f2ed: the agent ended a conversation: %s", error)

    def _accept(self, server: socket.socket) -> None:
        while True:
            self._places.acquire()
            app, _ = server.accept()
            threading.Thread(target=self._serve_and_leave, args=(app,), daemon=True).start()

    def _serve_and_leave(self, app: socket.socket) -> None:
        try:
            self.serve(app)
        except Exception as error:  # noqa: BLE001  no conversation ends the agent
            _log.error("f2ed: the agent failed in a conversation", exc_info=error)
        finally:
            self._places.release()

    def _converse(self, app: socket.socket) -> None:
        if (found := _peer(app)) != self._uid:
            raise GoneError(f"a process of user {found} asked; apps run as user {self._uid}")
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


def _peer(app: socket.socket) -> int:
    """Return the user of the process on the other side; on systems that cannot tell, the socket's mode must do."""
    if not hasattr(socket, "SO_PEERCRED"):
        return os.geteuid()
    size = struct.calcsize("3i")
    uid: int = struct.unpack("3i", app.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size))[1]
    return uid
