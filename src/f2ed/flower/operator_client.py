"""Flower's command line with a client certificate, which it has no option for.

The control routes of a SuperLink are open to anybody who reaches them, so a proxy in front of them asks for a
certificate of the operators' CA.
"""

import ssl
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from flwr.supercore import telemetry
from flwr.supercore.control.control_http_client import ControlHttpClient
from flwr.supercore.protobuf.client import ProtobufClient

from f2ed.core.errors import ConfigError
from f2ed.deployment.passphrase import passphrase
from f2ed.flower.replaced import replace

__all__ = ["run_flwr", "with_certificate"]


def run_flwr(words: Sequence[str], certificate: Path, key: Path) -> None:
    """Run a command of `flwr`; it ends the process with its own exit status."""
    with_certificate(certificate, key)
    replace(telemetry, "FLWR_TELEMETRY_ENABLED", "0")
    sys.argv = ["flwr", *words]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Of a package that Flower uses.
        from flwr.cli.app import app  # noqa: PLC0415  builds the whole command line as it is imported
    app()


def with_certificate(certificate: Path, key: Path) -> None:
    """Let the control client of this process present a certificate, over TLS only and to the named host only."""

    def connect(self: Any, base_url: str, *, verify: ssl.SSLContext | bool | str = True, **more: Any) -> None:
        if not base_url.startswith("https://"):
            raise ConfigError("a client certificate needs TLS; remove insecure = true from this SuperLink's settings")
        ProtobufClient.__init__(self, base_url, verify=_context(verify, certificate, key), **more)
        replace(self._client, "follow_redirects", False)

    replace(ControlHttpClient, "__init__", connect)


def _context(verify: ssl.SSLContext | bool | str, certificate: Path, key: Path) -> ssl.SSLContext:
    if isinstance(verify, ssl.SSLContext):
        context = verify
    else:
        context = ssl.create_default_context(cafile=verify if isinstance(verify, str) else None)
    try:
        context.load_cert_chain(certificate, key, password=lambda: passphrase(key))
    except OSError as error:  # An SSLError is one.
        raise ConfigError(f"{certificate} with {key} is no certificate to present: {error}") from None
    return context
