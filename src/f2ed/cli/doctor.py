"""`f2ed doctor`: what keeps a node or a server from working, found before it does."""

from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from f2ed.cli.check_table import report_checks
from f2ed.deployment.doctor import NodeFiles, ServerFiles, node_checks, server_checks

__all__ = ["doctor"]

doctor = App(
    name="doctor",
    help="""Check a node or a server: clock, certificates, keys, roster, disk.

    One line for each check, with what to do. Nothing is changed. The exit status is 1 if a check failed.

    Example: f2ed doctor node --roster roster.json --authority authority.pub --key hospital_a.key
    --superlink superlink.example.org:8000 --root-certificates ca.crt
    """,
)

_Json = Annotated[bool, Parameter(negative="", help="Print JSON for a program to read.")]
_Roster = Annotated[Path, Parameter(help="The signed roster, or the folder with all its serials.")]
_Authority = Annotated[Path, Parameter(help="The authority's public key.")]
_Timeout = Annotated[float, Parameter(help="Seconds to wait for an answer of the SuperLink.")]


@doctor.command
def node(
    *,
    roster: _Roster,
    authority: _Authority,
    key: Annotated[Path, Parameter(help="This node's private identity key.")],
    superlink: Annotated[str, Parameter(help="Host and port of the SuperLink.")],
    root_certificates: Annotated[Path, Parameter(help="The CA of the SuperLink's certificate.")],
    auth_supernode_private_key: Annotated[
        Path | None, Parameter(help="The key with which the node authenticates to the SuperLink.")
    ] = None,
    state: Annotated[Path | None, Parameter(help="f2ed-state of the node's config, if it is set there.")] = None,
    passphrase: Annotated[str, Parameter(help="f2ed-passphrase of the node's config, if it is set there.")] = "",
    timeout: _Timeout = 5.0,
    json: _Json = False,
) -> None:
    """Check a node, as the user who runs it and with the options of f2ed node.

    The clock is compared with the SuperLink's, which tells the time in every answer.

    Example: f2ed doctor node --roster roster.json --authority authority.pub --key hospital_a.key
    --superlink superlink.example.org:8000 --root-certificates ca.crt --auth-supernode-private-key node_0
    """
    files = NodeFiles(
        roster,
        authority,
        key,
        superlink,
        root_certificates,
        connection_key=auth_supernode_private_key,
        state=state,
        passphrase=passphrase,
    )
    report_checks(node_checks(files, timeout=timeout), json=json)


@doctor.command
def server(
    *,
    roster: _Roster,
    authority: _Authority,
    ca: Annotated[Path, Parameter(help="The CA whose certificates the nodes trust.")],
    certificate: Annotated[Path, Parameter(help="The server's certificate.")],
    key: Annotated[Path, Parameter(help="Its private key.")],
    superlink: Annotated[str, Parameter(help="Address of the SuperLink, if it is running.")] = "",
    proxy: Annotated[str, Parameter(help="Address where nodes connect, if a proxy is running.")] = "",
    database: Annotated[Path | None, Parameter(help="The SuperLink's database.")] = None,
    records: Annotated[Path | None, Parameter(help="The file of records.")] = None,
    checkpoint: Annotated[Path | None, Parameter(help="The checkpoint.")] = None,
    log_key: Annotated[Path | None, Parameter(help="The private key that signs the server's log.")] = None,
    timeout: _Timeout = 5.0,
    json: _Json = False,
) -> None:
    """Check a server, as the user who runs it.

    Example: f2ed doctor server --roster roster.json --authority authority.pub --ca ca.crt --certificate server.pem
    --key server.key --superlink 127.0.0.1:8001
    """
    files = ServerFiles(
        roster,
        authority,
        ca,
        certificate,
        key,
        superlink=superlink,
        proxy=proxy,
        database=database,
        records=records,
        checkpoint=checkpoint,
        log_key=log_key,
    )
    report_checks(server_checks(files, timeout=timeout), json=json)
