"""`f2ed kit`: a bundle per site, and what the site does with it."""

import hashlib
import os
import sys
from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from f2ed.cli.check_table import report_checks
from f2ed.cli.roster_keys import encryption
from f2ed.core.errors import ConfigError
from f2ed.deployment.certs import node_key
from f2ed.deployment.doctor import node_checks
from f2ed.deployment.keyfiles import read_public, write_new, write_pair
from f2ed.deployment.kit import Form, Parts, Site, bundle, check_roster_name, read_site, site_files
from f2ed.deployment.passphrase import SOURCES
from f2ed.deployment.roster import check_signature, read_roster

__all__ = ["kit"]

kit = App(
    name="kit",
    help="""Make a bundle per site, and use it there in three steps.

    Example: f2ed kit make hospital_a hospital_b --federation clinics --authority authority.pub --ca ca.crt
    --superlink superlink.example.org:8000
    """,
)

_Folder = Annotated[Path, Parameter(help="The folder of the unpacked kit.")]


@kit.command
def make(
    *sites: Annotated[str, Parameter(help="Names of the sites, as they will be on the roster.")],
    federation: Annotated[str, Parameter(help="Name of the federation, as in f2ed roster new.")],
    authority: Annotated[Path, Parameter(help="The authority's public key.")],
    ca: Annotated[Path, Parameter(help="The CA of the SuperLink's certificate.")],
    superlink: Annotated[str, Parameter(help="Host and port where nodes connect.")],
    roster: Annotated[Path | None, Parameter(help="The signed roster, if there is one already.")] = None,
    form: Annotated[Form, Parameter(help="How the sites start their nodes.")] = "systemd",
    out: Annotated[Path, Parameter(name=["--out", "-o"], help="The folder to write to.")] = Path("kits"),
) -> None:
    """Make one bundle per site: public files, settings, unit or Compose file, and a page of three steps.

    Nothing in it is secret, and no key is made: sites do that themselves. Tell every site the SHA-256 of its bundle by
    another way than the bundle took.

    Example: f2ed kit make hospital_a hospital_b --federation clinics --authority authority.pub --ca ca.crt
    --superlink superlink.example.org:8000
    """
    if not sites:
        raise ConfigError("no site given; name them as they will be on the roster: f2ed kit make hospital_a …")
    parts = Parts(_public(authority), _read(ca), None if roster is None else _signed(roster, authority, federation))
    for name in sites:
        content = bundle(Site(name, federation, superlink, form), parts)
        path = out / f"{name}.tar.gz"
        write_new(path, content)
        sys.stdout.write(f"{path}  SHA-256 {hashlib.sha256(content).hexdigest()}\n")


@kit.command
def keys(
    *,
    folder: _Folder = Path(),
    passphrase: Annotated[str, Parameter(help=f"Encrypt the identity key under a passphrase from: {SOURCES}.")] = "",
) -> None:
    """Make this site's two keys. Step 1, at the site: the private halves stay here.

    Example: f2ed kit keys
    """
    site = read_site(folder)
    files = site_files(folder, site)
    if existing := [path for path in (files.key, folder / f"{site.name}.node") if path.exists()]:
        raise ConfigError(f"{existing[0]} exists already; a new key is another participant: move both away first")
    public = write_pair(files.key, os.urandom(32), encryption(files.key, passphrase))
    connection = node_key(folder / f"{site.name}.node")
    sys.stdout.write(
        f"Send {public} to the authority, who adds it: f2ed roster add roster.json {public.name}\n"
        f"Send {connection} to the operator, who registers it: flwr supernode register {connection.name}\n"
    )


@kit.command
def check(
    *,
    folder: _Folder = Path(),
    passphrase: Annotated[str, Parameter(help=f"Where the identity key's passphrase comes from: {SOURCES}.")] = "",
    timeout: Annotated[float, Parameter(help="Seconds to wait for an answer of the SuperLink.")] = 5.0,
    json: Annotated[bool, Parameter(negative="", help="Print JSON for a program to read.")] = False,
) -> None:
    """Check the node before it starts, as f2ed doctor node does. Step 2, at the site.

    Example: f2ed kit check
    """
    files = site_files(folder, read_site(folder))._replace(passphrase=passphrase)
    report_checks(node_checks(files, timeout=timeout), json=json)


@kit.command
def start(
    *,
    folder: _Folder = Path(),
    node_config: Annotated[str, Parameter(help="Settings of the node, such as 'f2ed-dp-epsilon=8.0'.")] = "",
    port: Annotated[int, Parameter(help="A free port on loopback, through which apps get messages.")] = 9094,
) -> None:
    """Start the node in this terminal, with the files of the kit. Step 3, where there is no systemd.

    Example: f2ed kit start
    """
    from f2ed.flower import launcher  # noqa: PLC0415  only this command needs the extra flower

    files = site_files(folder, read_site(folder))
    launcher.start(
        launcher.NodeOptions(
            roster=files.roster,
            authority=files.authority,
            key=files.key,
            superlink=files.superlink,
            root_certificates=files.ca,
            auth_key=files.connection_key,
            port=port,
            node_config=node_config,
        )
    )


def _public(path: Path) -> bytes:
    """Return a public key's file; refuse a private one, which must not leave."""
    read_public(path)
    return path.read_bytes()


def _read(path: Path) -> bytes:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"the CA {path} cannot be read: {error.strerror}; name another file") from None
    if b"PRIVATE KEY" in content or b"BEGIN CERTIFICATE" not in content:
        raise ConfigError(f"{path} is not a certificate alone, and everything in a kit is public; name ca.crt")
    return content


def _signed(path: Path, authority: Path, federation: str) -> bytes:
    found = read_roster(path)
    check_signature(found, read_public(authority))
    check_roster_name(found, federation)
    return path.read_bytes()
