"""`f2ed certs`: certificates and node keys for a trial with TLS."""

import sys
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from f2ed.deployment.certs import node_key, server_certificate

__all__ = ["certs"]


def certs(
    folder: Annotated[Path, Parameter(help="Where the files go; none that is there is overwritten.")],
    *,
    host: Annotated[
        tuple[str, ...], Parameter(negative="", help="A name or address of the SuperLink; give it for each.")
    ] = ("127.0.0.1", "localhost"),
    nodes: Annotated[int, Parameter(help="For how many SuperNodes to make keys.")] = 0,
    days: Annotated[int, Parameter(help="How long the certificates are valid.")] = 30,
) -> None:
    """Create test certificates and node keys for TLS.

    The key of the CA is not kept: it signs one certificate. For production use the CA of your organization.

    Example: f2ed certs certs --host superlink.example.org --nodes 6
    """
    tls = server_certificate(folder, host, days=days)
    for node in range(nodes):
        node_key(folder / f"node_{node}")
    lines = [
        f"Made in {folder}: {tls.ca.name}, {tls.certificate.name}, {tls.key.name}"
        + (f" and node_0 … node_{nodes - 1} with .pub" if nodes else ""),
        (
            "SuperLink: flower-superlink --enable-supernode-auth "
            f"--ssl-ca-certfile {tls.ca} --ssl-certfile {tls.certificate} --ssl-keyfile {tls.key}"
        ),
        f"SuperNode: flower-supernode --root-certificates {tls.ca} --auth-supernode-private-key {folder / 'node_0'}",
    ]
    sys.stdout.write("\n".join(lines) + "\n")
