"""`f2ed certs`: certificates and node keys for a trial with TLS."""

import sys
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from f2ed.deployment.certs import node_key, server_certificate

__all__ = ["certs"]


def certs(
    folder: Annotated[Path, Parameter(help="The folder to write to; existing files are not overwritten.")],
    *,
    host: Annotated[
        tuple[str, ...], Parameter(negative="", help="A name or address of the SuperLink; may be repeated.")
    ] = ("127.0.0.1", "localhost"),
    nodes: Annotated[int, Parameter(help="Number of SuperNode keys to create.")] = 0,
    days: Annotated[int, Parameter(help="Validity of the certificates in days.")] = 30,
) -> None:
    """Create test certificates and node keys for TLS.

    The CA's key signs one certificate and is not stored. In production use your organization's CA.

    Example: f2ed certs certs --host superlink.example.org --nodes 6
    """
    tls = server_certificate(folder, host, days=days)
    for node in range(nodes):
        node_key(folder / f"node_{node}")
    lines = [
        f"Created in {folder}: {tls.ca.name}, {tls.certificate.name}, {tls.key.name}"
        + (f" and node_0 … node_{nodes - 1} with .pub" if nodes else ""),
        (
            "SuperLink: flower-superlink --enable-supernode-auth "
            f"--ssl-ca-certfile {tls.ca} --ssl-certfile {tls.certificate} --ssl-keyfile {tls.key}"
        ),
        f"SuperNode: flower-supernode --root-certificates {tls.ca} --auth-supernode-private-key {folder / 'node_0'}",
    ]
    sys.stdout.write("\n".join(lines) + "\n")
