"""Starts the agent of a node: which settings it gets, where its socket is, and who may use it."""

import os
import re
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

from flwr.common.config import parse_config_args

from f2ed.core.errors import ConfigError
from f2ed.deployment.agent import AGENT, Agent
from f2ed.deployment.agent.listener import user_id
from f2ed.deployment.dumps import forbid_dumps
from f2ed.flower.pinning import Gate

__all__ = ["OURS", "NodeSettings", "Place", "place_for", "split_settings", "start_agent"]

OURS = ("f2ed-key", "f2ed-roster", "f2ed-authority")
_PAIR = re.compile(r"(\S+?)=(\'[^\']*\'|\"[^\"]*\"|\S+)")
"""As Flower reads --node-config."""


class NodeSettings(NamedTuple):
    """A --node-config, taken apart."""

    agent: dict[str, Any]
    """Of the agent: those whose names begin with f2ed-."""
    apps: str
    """Of the apps, as text."""


class Place(NamedTuple):
    """Where an agent listens, and for whom."""

    path: Path
    uid: int
    mode: int = 0o600


def split_settings(text: str) -> NodeSettings:
    """Take a --node-config apart; refuse settings that have an option of their own."""
    if rest := _PAIR.sub("", text).strip():
        raise ConfigError(f"{rest[:80]!r} in --node-config is no setting; write name=value, and text in quotes")
    pairs = _PAIR.findall(text)
    ours = [f"{name}={value}" for name, value in pairs if name.startswith("f2ed-")]
    found: dict[str, Any] = parse_config_args([" ".join(ours)])
    for name in OURS:
        if name in found:
            raise ConfigError(f"{name} is in --node-config; give it as --{name.removeprefix('f2ed-')} instead")
    if AGENT in found:
        raise ConfigError(f"{AGENT} is in --node-config; leave it out, f2ed node starts an agent itself")
    return NodeSettings(found, " ".join(f"{name}={value}" for name, value in pairs if not name.startswith("f2ed-")))


def place_for(app_user: str, app_secret: Path | None) -> Place:
    """Return where an agent listens: for this user in a folder of its own, else where the apps' user may enter."""
    uid = user_id(app_user) if app_user else os.geteuid()
    if app_secret is not None:
        return Place(app_secret.resolve().with_name("agent"), uid, 0o660)
    folder = Path(tempfile.mkdtemp(prefix="f2ed-agent-"))
    if uid != os.geteuid():
        folder.chmod(0o711)
    return Place(folder / "agent", uid)


def start_agent(place: Place, gate: Gate, settings: dict[str, Any]) -> None:
    """Start the agent in this process, whose memory no process of another user, and no debugger, can read."""
    forbid_dumps()
    agent = Agent(settings, gate.approved.get, uid=place.uid)
    # With a secret for others, the socket's group lets them in: only root may give a file away.
    owner = place.uid if place.mode == 0o600 else -1
    agent.listen(place.path, mode=place.mode, owner=owner)
