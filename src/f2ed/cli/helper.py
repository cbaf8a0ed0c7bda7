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
    socket: Annotated[Path, Parameter(help="Where the app on this helper's node reaches it.")],
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

    The helper's key, its checks and its memory are in this process; run it as a user of its own. Its Flower node is a
    plain one with the setting f2ed-helper, whose app only carries bytes to the socket and back. Every answer is on the
    disk before it leaves.

    Example: f2ed helper --role mixer --key mixer.key --roster roster.json --authority authority.pub
    --socket /run/f2ed/mixer.sock --user flower
    """
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
    sys.stdout.write(
        f"The {role} of {followed.name!r}, serial {followed.serial}, listens. Its node needs --node-config "
        f"'{HELPER}=\"{socket.resolve()}\"'.\n"
    )
    sys.stdout.flush()
    threading.Event().wait()
