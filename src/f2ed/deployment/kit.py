"""A site kit: one bundle per site with everything public that a node needs, and a page of three steps.

Nothing in it is secret. The keys are made at the site, where they stay; what comes back are two public keys.
"""

import gzip
import io
import re
import tarfile
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal, NamedTuple, final, get_args

import msgspec
from msgspec import Meta

from f2ed.core.errors import ConfigError
from f2ed.deployment.doctor.connection import host_and_port
from f2ed.deployment.doctor.node import NodeFiles
from f2ed.deployment.kit_page import page
from f2ed.deployment.roster import Roster

__all__ = ["FORMS", "Form", "Parts", "Site", "bundle", "check_roster_name", "check_site", "read_site", "site_files"]

Form = Literal["systemd", "compose", "plain"]
"""How the node is started: units, containers, or a command in a terminal."""
FORMS: tuple[Form, ...] = get_args(Form)
SETTINGS = "site.toml"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,62}")
_WHOLE_NAME = f"^{_NAME.pattern}$"
_FOLDERS = (Path(__file__).parent / "files", Path(__file__).parents[3] / "deploy")
"""The files to copy: in an installed package, and in the checkout that the package is run from."""
_COPIED: Mapping[Form, tuple[str, ...]] = {
    "systemd": ("systemd/f2ed-supernode.service", "systemd/f2ed-executor.service"),
    "compose": ("containers/supernode.yaml",),
    "plain": (),
}


@final
class Site(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the settings of a kit say."""

    name: Annotated[str, Meta(pattern=_WHOLE_NAME)]
    """Of the client on the roster."""
    federation: str
    superlink: str
    form: Form = "systemd"


class Parts(NamedTuple):
    """The public files of a federation."""

    authority: bytes
    """The public key, in PEM."""
    ca: bytes
    roster: bytes | None = None
    """The signed roster, if there is one already."""


def check_site(site: Site) -> Site:
    """Refuse a name or an address that would not work at the site."""
    if not _NAME.fullmatch(site.name):
        raise ConfigError(f"{site.name!r} is not a name for a site; use letters, digits, - and _, as in hospital_a")
    host_and_port(site.superlink)
    return site


def bundle(site: Site, parts: Parts) -> bytes:
    """Return the kit of a site as a compressed tar file; equal contents give equal bytes."""
    check_site(site)
    contents = {"README.md": page(site.name, site.federation, site.superlink, site.form).encode()}
    contents |= {SETTINGS: _toml(site), "authority.pub": parts.authority, "ca.crt": parts.ca}
    if parts.roster is not None:
        contents["roster.json"] = parts.roster
    contents |= {Path(name).name: _copied(name) for name in _COPIED[site.form]}
    if site.form == "systemd":
        contents["supernode.env"] = f"SUPERLINK={site.superlink}\n".encode()
    if site.form == "compose":
        contents[".env"] = f"SUPERLINK={site.superlink}\n".encode()
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name, content in sorted(contents.items()):
            entry = tarfile.TarInfo(f"{site.name}/{name}")
            entry.size, entry.mode = len(content), 0o644
            archive.addfile(entry, io.BytesIO(content))
    return gzip.compress(packed.getvalue(), mtime=0)


def read_site(folder: Path) -> Site:
    """Read the settings of an unpacked kit."""
    path = folder / SETTINGS
    try:
        return check_site(msgspec.convert(tomllib.loads(path.read_text()), Site))
    except FileNotFoundError:
        raise ConfigError(f"{folder} is not an unpacked kit: it has no {SETTINGS}; name its folder: --folder") from None
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path} cannot be used: {error}; unpack the kit again") from None


def site_files(folder: Path, site: Site) -> NodeFiles:
    """Return where the files of a node are, in an unpacked kit."""
    return NodeFiles(
        folder / "roster.json",
        folder / "authority.pub",
        folder / f"{site.name}.key",
        site.superlink,
        folder / "ca.crt",
        connection_key=folder / f"{site.name}.node",
    )


def check_roster_name(roster: Roster, federation: str) -> None:
    """Refuse a roster of another federation."""
    if roster.name != federation:
        raise ConfigError(f"the roster is of {roster.name!r}, and the kit is for {federation!r}; name the right one")


def _toml(site: Site) -> bytes:
    lines = [f"{name} = {msgspec.json.encode(value).decode()}" for name, value in msgspec.to_builtins(site).items()]
    return ("\n".join(lines) + "\n").encode()


def _copied(name: str) -> bytes:
    for folder in _FOLDERS:
        if (folder / name).is_file():
            return (folder / name).read_bytes()
    raise ConfigError(f"{name} is missing from this installation of f2ed; install it again from the source tree")
