"""`f2ed certs`: certificates and node keys for a trial with TLS."""

import sys
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from f2ed.core.errors import ConfigError
from f2ed.deployment.certs import node_key, operator_certificate, server_certificate
from f2ed.deployment.doctor.connection import host_and_port
from f2ed.deployment.keyfiles import write_new

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
    operate: Annotated[
        str, Parameter(help="Also write a FLWR_HOME for the operator: NAME=HOST:PORT of the SuperLink.")
    ] = "",
) -> None:
    """Create test certificates and node keys for TLS.

    There are two CAs: one for the server, one for the operator who submits runs. The key of a CA signs one certificate
    and is not stored. In production use your organization's CA. The SuperLink itself listens on 127.0.0.1 behind a
    proxy, so the certificate is for that address, too.

    Example: f2ed certs certs --host superlink.example.org --nodes 6
    """
    home = _operator_home(folder, operate) if operate else None
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
    if home is not None:
        lines.append(f"flwr finds the SuperLink by its name: export FLWR_HOME={home.parent.resolve()}")
    sys.stdout.write("\n".join(lines) + "\n")


def _operator_home(folder: Path, operate: str) -> Path:
    """Write the settings with which `flwr` finds the SuperLink and trusts its certificate."""
    name, equals, address = operate.partition("=")
    if not equals or not name.isidentifier():
        raise ConfigError(f"--operate {operate}; write NAME=HOST:PORT, as in clinics=superlink.example.org:8443")
    host_and_port(address)
    path = folder / "flwr" / "config.toml"
    root = (folder / "ca.crt").resolve()
    text = f'[superlink]\ndefault = "{name}"\n\n[superlink.{name}]\naddress = "{address}"\n'
    write_new(path, f'{text}root-certificates = "{root}"\n'.encode())
    return path
