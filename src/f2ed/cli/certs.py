"""`f2ed certs`: certificates and node keys for a trial with TLS."""

import sys
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from f2ed.deployment.certs import node_key, operator_certificate, server_certificate

__all__ = ["certs"]

_LOCAL = ("127.0.0.1", "localhost")


def certs(
    folder: Annotated[Path, Parameter(help="The folder to write to; existing files are not overwritten.")],
    *,
    host: Annotated[
        tuple[str, ...], Parameter(negative="", help="A name or address of the server; may be repeated.")
    ] = (),
    nodes: Annotated[int, Parameter(help="Number of SuperNode keys to create.")] = 0,
    days: Annotated[int, Parameter(help="Validity of the certificates in days.")] = 30,
) -> None:
    """Create test certificates and node keys for TLS.

    There are two CAs: one for the server, one for the operator who submits runs. The key of a CA signs one certificate
    and is not stored. In production use your organization's CA. The SuperLink itself listens on 127.0.0.1 behind a
    proxy, so the certificate is for that address, too.

    Example: f2ed certs certs --host superlink.example.org --nodes 6
    """
    tls = server_certificate(folder, list(dict.fromkeys((*host, *_LOCAL))), days=days)
    operator = operator_certificate(folder, days=days)
    for node in range(nodes):
        node_key(folder / f"node_{node}")
    lines = [
        f"Created in {folder}: {tls.ca.name}, {tls.certificate.name}, {tls.key.name}"
        + (f" and node_0 … node_{nodes - 1} with .pub" if nodes else ""),
        (
            "SuperLink: flower-superlink --host 127.0.0.1 --enable-supernode-auth "
            f"--ssl-ca-certfile {tls.ca} --ssl-certfile {tls.certificate} --ssl-keyfile {tls.key}"
        ),
        f"Proxy in front of it: {operator.ca} decides who may use the control routes; see deploy/README.md",
        f"Operator: f2ed operator --certificate {operator.certificate} --key {operator.key} -- run APP SUPERLINK",
        f"Node: f2ed node --root-certificates {tls.ca} --auth-supernode-private-key {folder / 'node_0'} …",
    ]
    sys.stdout.write("\n".join(lines) + "\n")
