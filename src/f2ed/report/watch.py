"""The live page: a small local server that sends what runs add to their records."""

import errno
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, final
from urllib.parse import parse_qs, quote, urlsplit

from f2ed.core.errors import ConfigError
from f2ed.report.follow import Board, Folder
from f2ed.report.page import check_installed, render

__all__ = ["LOOPBACK", "serve"]

LOOPBACK = "127.0.0.1"
_LOOK = 0.25
_PACE = 0.5
_REST = 9
"""After an update the watcher pauses this many times as long as it took: training needs the processor more."""
_STILL_THERE = 10.0
_MOST_STREAMS = 32


@contextmanager
def serve(folder: Path, port: int = 0, *, host: str = LOOPBACK) -> Iterator[str]:
    """Serve the live page of a folder until the block is left; yields its address. Port 0 is any that is free.

    The folder need not exist yet. By default only programs on this machine can reach the page.
    """
    check_installed()
    try:
        server = _Server((host, port), _Handler)
    except OverflowError:
        raise ConfigError(f"invalid port {port}; choose from 1 to 65535, or 0 for any free port") from None
    except OSError as error:
        raise ConfigError(_cannot_listen(error, host, port)) from None
    server.watched = _Watched(folder)
    server.local = host in {LOOPBACK, "localhost", "::1"}
    threads = [threading.Thread(target=work, daemon=True) for work in (server.watched.run, server.serve_forever)]
    for thread in threads:
        thread.start()
    try:
        yield f"http://{host}:{server.server_port}/"
    finally:
        server.watched.stop()
        server.shutdown()
        server.server_close()
        for thread in threads:
            thread.join()


def _cannot_listen(error: OSError, host: str, port: int) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"port {port} is in use by another program; choose another with --port, or a free one with --port 0"
    if error.errno == errno.EACCES:
        return f"port {port} needs special privileges; choose one from 1024 up with --port"
    return f"cannot listen on {host}, port {port}: {error.strerror or error}; choose another with --host or --port"


@final
class _Watched:
    """The folder's state, shared between the thread that looks and those that send."""

    def __init__(self, folder: Path) -> None:
        self.title = folder.resolve().name or "Runs"
        self._folder = Folder(folder)
        self._board = Board()
        self._news = threading.Condition()
        self._ended = threading.Event()
        self._look()

    def run(self) -> None:
        """Look again and again until stopped."""
        pause = _LOOK
        while not self._ended.wait(pause):
            began = time.monotonic()
            pause = max(_PACE, _REST * (time.monotonic() - began)) if self._look() else _LOOK

    def stop(self) -> None:
        """Release every waiting thread."""
        self._ended.set()
        with self._news:
            self._news.notify_all()

    def page(self) -> str:
        """Return the current page, which knows its own state."""
        with self._news:
            data, mark = self._board.data, self._board.mark
        return render(data, title=self.title, live=f"events?since={quote(mark)}")

    def news(self, mark: str) -> tuple[str, bytes] | None:
        """Wait for what is newer than a mark; None after some time, or at the end."""
        with self._news:
            if mark == self._board.mark and not self._ended.is_set():
                self._news.wait(_STILL_THERE)
            return None if mark == self._board.mark else (self._board.mark, self._board.since(mark))

    @property
    def ended(self) -> bool:
        """Whether the server is being closed."""
        return self._ended.is_set()

    def _look(self) -> bool:
        if not self._folder.look():
            return False
        with self._news:
            self._board.update(*self._folder.read())
            self._news.notify_all()
        return True


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    watched: _Watched
    local: bool

    def __init__(self, *arguments: Any) -> None:
        self.streams = threading.BoundedSemaphore(_MOST_STREAMS)
        super().__init__(*arguments)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore pages that were closed while being sent something."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    server_version = "f2ed"

    def do_GET(self) -> None:
        """Answer with the page, or with the stream of updates."""
        wanted = urlsplit(self.path)
        if self.server.local and not self._from_here():
            self._answer(HTTPStatus.FORBIDDEN, "This page is served to this machine only; open it at 127.0.0.1.")
        elif wanted.path == "/":
            self._answer(HTTPStatus.OK, self.server.watched.page(), "text/html")
        elif wanted.path == "/events":
            self._stream(self.headers.get("Last-Event-ID") or parse_qs(wanted.query).get("since", [""])[0])
        else:
            self._answer(HTTPStatus.NOT_FOUND, "There is only the page at /.")

    def _from_here(self) -> bool:
        """Return whether the page was requested by a local name: a foreign name may resolve to this machine."""
        return urlsplit(f"//{self.headers.get('Host', '')}").hostname in {LOOPBACK, "localhost", "::1"}

    def _answer(self, status: HTTPStatus, text: str, kind: str = "text/plain") -> None:
        content = text.encode()
        self._head(status, f"{kind}; charset=utf-8", ("Content-Length", str(len(content))))
        self.wfile.write(content)

    def _head(self, status: HTTPStatus, kind: str, *more: tuple[str, str]) -> None:
        self.send_response(status)
        for name, value in (("Content-Type", kind), ("Cache-Control", "no-store"), *more):
            self.send_header(name, value)
        self.end_headers()

    def _stream(self, mark: str) -> None:
        if not self.server.streams.acquire(blocking=False):
            self._answer(HTTPStatus.SERVICE_UNAVAILABLE, f"{_MOST_STREAMS} pages are connected already; close some.")
            return
        try:
            self._head(HTTPStatus.OK, "text/event-stream")
            while not self.server.watched.ended:
                news = self.server.watched.news(mark)
                if news is None:
                    # A comment line shows whether the page is still connected.
                    self.wfile.write(b":\n\n")
                else:
                    mark, content = news
                    self.wfile.write(b"id: %b\nevent: change\ndata: %b\n\n" % (mark.encode(), content))
                self.wfile.flush()
        finally:
            self.server.streams.release()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  the base class's name for it
        """Keep quiet: the terminal belongs to the run."""
