"""A small HTTPS server on loopback, with a clock and a certificate of one's choice."""

import datetime as dt
import ssl
import threading
from contextlib import contextmanager
from email.utils import format_datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace

from f2ed.deployment import certs


@contextmanager
def answering(tls=None, *, ahead=0.0, dated=True):
    """Serve /health; `ahead` seconds are added to the clock. Yields the address."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response_only(200)
            if dated:
                told = dt.datetime.now(dt.UTC) + dt.timedelta(seconds=ahead)
                self.send_header("Date", format_datetime(told, usegmt=True))
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_):
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, *_):
            pass

    server = Server(("127.0.0.1", 0), Handler)
    if tls is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(tls.certificate, tls.key)
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    thread = threading.Thread(target=lambda: server.serve_forever(poll_interval=0.02), daemon=True)
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def issued(folder, monkeypatch, *, days_ago=0, days=30, host="127.0.0.1"):
    """Return a certificate that was issued some days ago, for some days."""

    class Then(dt.datetime):
        @classmethod
        def now(cls, zone=None):
            return dt.datetime.now(zone) - dt.timedelta(days=days_ago)

    with monkeypatch.context() as patched:
        patched.setattr(certs, "dt", SimpleNamespace(datetime=Then, timedelta=dt.timedelta, UTC=dt.UTC))
        return certs.server_certificate(folder, [host], days=days)
