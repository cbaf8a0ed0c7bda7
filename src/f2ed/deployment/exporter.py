"""Serves the metrics of a deployment, and whether it is healthy, to programs that ask over HTTP."""

import errno
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from f2ed.core.errors import ConfigError, F2edError

__all__ = ["serve_metrics"]

_TEXT_FORMAT = "text/plain; version=0.0.4; charset=utf-8"


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    metrics: Callable[[], str]
    health: Callable[[], str]


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    server_version = "f2ed"

    def do_GET(self) -> None:
        """Answer `/metrics`, and `/health` with status 503 where something is wrong."""
        if self.path == "/metrics":
            self._answer(self.server.metrics, failed=HTTPStatus.INTERNAL_SERVER_ERROR)
        elif self.path == "/health":
            self._answer(self.server.health, failed=HTTPStatus.SERVICE_UNAVAILABLE)
        else:
            self._send(HTTPStatus.NOT_FOUND, "There are /metrics and /health.\n")

    def _answer(self, text: Callable[[], str], *, failed: HTTPStatus) -> None:
        try:
            found = text()
        except F2edError as error:
            self._send(failed, f"{error}\n")
        else:
            self._send(HTTPStatus.OK, found)

    def _send(self, status: HTTPStatus, text: str) -> None:
        content = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", _TEXT_FORMAT)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  the base class calls it so
        """Say nothing: a scrape every few seconds is not news."""


@contextmanager
def serve_metrics(metrics: Callable[[], str], health: Callable[[], str], *, host: str, port: int) -> Iterator[str]:
    """Serve what the two functions return until the block is left; yields the address. Port 0 is any that is free.

    An error of ours becomes an answer with a status of 500 and up, so that a scrape fails instead of showing old
    values.
    """
    try:
        server = _Server((host, port), _Handler)
    except OverflowError:
        raise ConfigError(f"invalid port {port}; choose from 1 to 65535, or 0 for any free port") from None
    except OSError as error:
        why = "is in use by another program" if error.errno == errno.EADDRINUSE else f"cannot be used: {error.strerror}"
        raise ConfigError(f"port {port} of {host} {why}; choose another with --port") from None
    server.metrics, server.health = metrics, health
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://{host}:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
