"""The commands of a trial's processes, as an operator would type them."""

from pathlib import Path

from f2ed.deployment.certs import Tls
from f2ed.deployment.roster import HelperRole
from f2ed.flower.processes import HOST, tool

__all__ = ["helper_command", "superlink_command"]


def superlink_command(folder: Path, port: int, tls: Tls) -> list[str]:
    """Return the command of a SuperLink with TLS and node authentication."""
    return [
        *tool("flower-superlink"),
        *("--host", HOST, "--port", str(port)),
        *("--ssl-ca-certfile", str(tls.ca)),
        *("--ssl-certfile", str(tls.certificate), "--ssl-keyfile", str(tls.key)),
        *("--enable-supernode-auth", "--disable-runtime-dependency-installation"),
        *("--database", str(folder / "superlink.db")),
    ]


def helper_command(folder: Path, role: HelperRole, superlink: str, ca: Path, key: int, port: int) -> list[str]:
    """Return the options of a helper with its node; `key` is the number of the key with which the node connects."""
    mine = folder / role
    return [
        *("helper", "--role", role, "--key", str(mine / f"{role}.key")),
        *("--roster", str(folder / "roster.json"), "--authority", str(folder / "authority.pub")),
        *("--socket", str(mine / f"{role}.sock"), "--state", str(mine / "state")),
        *("--superlink", superlink, "--root-certificates", str(ca)),
        *("--auth-supernode-private-key", str(folder / "nodes" / f"node_{key}"), "--port", str(port)),
    ]
