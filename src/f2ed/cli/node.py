"""`f2ed node`: a SuperNode that runs approved apps only."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from f2ed.flower.launcher import NodeOptions, start
from f2ed.flower.preload import AUTO, PRELOAD_HELP

__all__ = ["node"]


def node(
    *further: Annotated[str, Parameter(help="Options of flower-supernode: --max-retries, --max-wait-time.")],
    roster: Annotated[
        Path, Parameter(help="The signed roster, or a folder with all serials; read with every message.")
    ],
    authority: Annotated[Path, Parameter(help="The authority's public key, obtained from it and not from the server.")],
    key: Annotated[Path, Parameter(help="This node's private identity key.")],
    superlink: Annotated[str, Parameter(help="Host and port of the SuperLink.")],
    root_certificates: Annotated[Path, Parameter(help="The CA of the SuperLink's certificate.")],
    auth_supernode_private_key: Annotated[
        Path | None, Parameter(help="The key with which the node authenticates to the SuperLink.")
    ] = None,
    node_config: Annotated[str, Parameter(help="Settings of the node, such as 'f2ed-dp-epsilon=8.0'.")] = "",
    port: Annotated[int, Parameter(help="A free port on loopback, through which apps get messages.")] = 9094,
    app_user: Annotated[
        str,
        Parameter(help="Run apps as this user, for which root must start the node; with --app-secret: who runs them."),
    ] = "",
    app_secret: Annotated[
        Path | None, Parameter(help="Start no apps; write here the secret for f2ed executor, which does.")
    ] = None,
    app_env: Annotated[
        tuple[str, ...], Parameter(negative="", help="Name of an environment variable that apps get; repeatable.")
    ] = (),
    preload: Annotated[str, Parameter(help=PRELOAD_HELP)] = AUTO,
) -> None:
    """Start a SuperNode that runs only apps on the signed roster.

    An app is compared with the SHA-256 that the authority signed before it is unpacked. At each start the node tries a
    stranger's app on the installed Flower, and does not start unless that is refused. Apps get no key: this process
    holds it and answers them on a socket, and an app of another user (--app-user) can read nothing else of the node.

    Example: f2ed node --roster roster.json --authority authority.pub --key hospital_a.key
    --superlink superlink.example.org:8000 --root-certificates ca.crt --auth-supernode-private-key node_0
    """
    start(
        NodeOptions(
            roster=roster,
            authority=authority,
            key=key,
            superlink=superlink,
            root_certificates=root_certificates,
            auth_key=auth_supernode_private_key,
            port=port,
            node_config=node_config,
            app_user=app_user,
            app_secret=app_secret,
            app_variables=app_env,
            preload=preload,
            further=further,
        )
    )
