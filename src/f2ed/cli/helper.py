"""`f2ed helper`: the mixer or the judge, outside the reach of the apps that the server sends."""

import os
import sys
import threading
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from f2ed.cli.roster_keys import Passphrase
from f2ed.core.errors import ConfigError, PeerError
from f2ed.deployment.agent.listener import user_id
from f2ed.deployment.dumps import forbid_dumps
from f2ed.deployment.helper_agent import HELPER, HelperAgent
from f2ed.deployment.keyfiles import read_private
from f2ed.deployment.roster import HelperRole

__all__ = ["helper"]


def helper(
    *,
    role: Annotated[HelperRole, Parameter(help="What this helper is on the roster.")],
    key: Annotated[Path, Parameter(help="Its private key.")],
    roster: Annotated[Path, Parameter(help="The countersigned roster, or a folder with all serials.")],
    authority: Annotated[Path, Parameter(help="The authority's public key, obtained from it and not from the server.")],
    socket: Annotated[Path, Parameter(help="Where this helper's node reaches it.")],
    superlink: Annotated[str, Parameter(help="Start the node too: host and port of the SuperLink.")] = "",
    root_certificates: Annotated[Path | None, Parameter(help="The CA of the SuperLink's certificate.")] = None,
    auth_supernode_private_key: Annotated[
        Path | None, Parameter(help="The key with which the node authenticates to the SuperLink.")
    ] = None,
    port: Annotated[int, Parameter(help="A free port on loopback, for the node's own parts.")] = 9094,
    state: Annotated[
        Path | None, Parameter(help="The folder of its memory; by default NAME.state, by its key.")
    ] = None,
    user: Annotated[str, Parameter(help="The user of the node, who may ask; by default the one who starts this.")] = "",
    first: Annotated[
        bool, Parameter(negative="", help="Begin a new memory: only when this helper never served the federation.")
    ] = False,
    passphrase: Passphrase = "",
) -> None:
    """Serve as the mixer or the judge besides the server.

    The helper's key, its checks and its memory are in this process; run it as a user of its own. Every answer is on the
    disk before it leaves. With --superlink it also starts its Flower node, which carries bytes to the socket and back
    and runs no app that a server sends; started by root, as another user (--user).

    Example: f2ed helper --role mixer --key mixer.key --roster roster.json --authority authority.pub
    --socket /run/f2ed/mixer.sock --superlink superlink.example.org:8000 --root-certificates ca.crt
    --auth-supernode-private-key mixer_node
    """
    if superlink and root_certificates is None:
        raise ConfigError("--superlink without --root-certificates; name the CA of its certificate")
    settings = {"f2ed-key": key, "f2ed-roster": roster, "f2ed-authority": authority}
    settings |= {} if state is None else {"f2ed-state": state}
    forbid_dumps()
    me = os.geteuid()
    uid = user_id(user) if user else me
    agent = HelperAgent(role, read_private(key, passphrase), settings, uid=uid)
    try:
        followed = agent.start(first=first)
    except PeerError as error:
        raise ConfigError(str(error)) from None
    # Only root may give a file away; otherwise the socket's group lets the node's user in.
    agent.listen(socket, mode=0o600 if me in (0, uid) else 0o660, owner=uid if me == 0 else -1)
    node = f"Its node needs --node-config '{HELPER}=\"{socket.resolve()}\"'." if not superlink else "Its node starts."
    sys.stdout.write(f"The {role} of {followed.name!r}, serial {followed.serial}, listens. {node}\n")
    sys.stdout.flush()
    if not superlink or root_certificates is None:
        threading.Event().wait()
        return
    from f2ed.flower.helper_node import HelperNode, start_helper_node  # noqa: PLC0415  the key's holder needs no Flower

    place = HelperNode(superlink, root_certificates, socket, port, auth_supernode_private_key)
    with start_helper_node(place, user=user if me == 0 and uid != 0 else "") as process:
        status = process.wait()
    raise PeerError(f"the node of this {role} ended with status {status}; see its log above, then start both again")
