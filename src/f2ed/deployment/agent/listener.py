"""A Unix socket on which a process that holds a key answers processes of one user."""

import os
import pwd
import socket
import struct
import threading
from abc import ABC, abstractmethod
from contextlib import suppress
from logging import getLogger
from pathlib import Path

from f2ed.core.errors import ConfigError, GoneError

__all__ = ["Listener", "user_id"]

_log = getLogger("f2ed.deployment")

_MOST_CONVERSATIONS = 8


class Listener(ABC):
    """Has conversations with processes of one user, each in a thread of its own."""

    def __init__(self, *, uid: int) -> None:
        self._uid = uid
        self._places = threading.BoundedSemaphore(_MOST_CONVERSATIONS)

    def __repr__(self) -> str:
        """Show no path of a key."""
        return f"{type(self).__name__}(uid={self._uid})"

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
                self._check_user(app)
                self._converse(app)
            except (GoneError, TimeoutError) as error:
                _log.warning("f2ed: the agent ended a conversation: %s", error)

    @abstractmethod
    def _converse(self, app: socket.socket) -> None:
        """Have a conversation with a process of the right user."""

    def _check_user(self, app: socket.socket) -> None:
        if (found := _peer(app)) != self._uid:
            raise GoneError(f"a process of user {found} asked; apps run as user {self._uid}")

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


def _peer(app: socket.socket) -> int:
    """Return the user of the process on the other side; on systems that cannot tell, the socket's mode must do."""
    if not hasattr(socket, "SO_PEERCRED"):
        return os.geteuid()
    size = struct.calcsize("3i")
    uid: int = struct.unpack("3i", app.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size))[1]
    return uid


def user_id(name: str) -> int:
    """Return the number of a user, who may be named by it."""
    if name.isdecimal():
        return int(name)
    try:
        return pwd.getpwnam(name).pw_uid
    except KeyError:
        raise ConfigError(f"there is no user {name}; create one with: useradd --system {name}") from None
