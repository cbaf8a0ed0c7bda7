"""Checks of the machine: versions, folders and their space, and certificate files."""

import platform
import re
import shutil
import ssl
import subprocess
import tempfile
from collections.abc import Iterable, Mapping
from datetime import datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from cryptography import x509

from f2ed.deployment.doctor.checks import Check, attempt, failed, ok, warning
from f2ed.deployment.doctor.connection import expiry_check

__all__ = ["NEEDED", "certificate_check", "clock_check", "folder_check", "pair_check", "runner_check", "version_check"]

NEEDED: Mapping[str, tuple[tuple[int, int], tuple[int, int] | None]] = {
    "python": ((3, 11), None),
    "cryptography": ((48, 0), None),
    "flwr": ((1, 41), (1, 42)),
}
"""The first version that works, and the first that does not."""
_LITTLE, _TOO_LITTLE = 1 << 30, 100 << 20
"""Bytes of free space."""
_RUNNER = "flower-superexec"
"""Flower's program that a SuperLink starts, and does not start again."""


def version_check(found: Mapping[str, str] | None = None) -> Check:
    """Compare the installed versions with those that work."""
    found = _installed() if found is None else found
    listed = ", ".join(f"{name} {number or 'missing'}" for name, number in found.items())
    for name, (first, after) in NEEDED.items():
        number = found.get(name, "")
        wanted = f"{name} {'.'.join(map(str, first))}" + ("" if after is None else f" and below {after[0]}.{after[1]}")
        if not number or _pair(number) < first or (after is not None and _pair(number) >= after):
            return failed("versions", f"{listed}; {wanted} is needed", "pip install '.[flower]' from the source tree")
    return ok("versions", listed)


def clock_check() -> Check:
    """Ask systemd whether the clock is synchronized: a server has nobody to compare it with."""
    command = shutil.which("timedatectl")
    remedy = "timedatectl set-ntp true; the server's log names nodes whose clock differs"
    if command is None:
        return warning("clock", "there is no timedatectl to ask whether it is synchronized", remedy)
    asked = [command, "show", "--property=NTPSynchronized", "--value"]
    answer = subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip()  # noqa: S603
    if answer == "yes":
        return ok("clock", "synchronized by NTP")
    return warning("clock", "not synchronized by NTP, as far as systemd knows", remedy)


def runner_check(address: str, commands: Iterable[str] | None = None) -> Check:
    """Check that the part of a SuperLink that starts runs is alive: without it runs are accepted, and never begin.

    `commands` are those of all processes of this machine, by default as the system lists them.
    """
    name, listed = "SuperLink: runner", _commands() if commands is None else list(commands)
    port = address.rpartition(":")[2]
    mine = [each for each in listed if port in re.split(r"[\s:=]", each)]
    if any(_RUNNER in each for each in mine):
        return ok(name, f"{_RUNNER} serves port {port}")
    if not any("flower-superlink" in each for each in mine):
        return ok(name, f"no SuperLink with port {port} among the processes here; look where it runs")
    return failed(
        name,
        f"no {_RUNNER} serves port {port}: runs are accepted, stay pending and never begin",
        "restart the SuperLink",
    )


def folder_check(name: str, folder: Path, *, growing: int = 0) -> Check:
    """Check that a folder can be written and has space; `growing` bytes are in it that will become more."""
    existing = next(each for each in (folder, *folder.absolute().parents) if each.exists())
    try:
        with tempfile.TemporaryFile(dir=existing) as file:
            file.write(b"f2ed")
            file.flush()
        free = shutil.disk_usage(existing).free
    except OSError as error:
        return attempt(name, error, f"let this user write to {existing}, or name another folder")
    found = f"{folder} can be written, {free / (1 << 30):.1f} GiB are free"
    if growing:
        found += f", {growing / (1 << 20):.0f} MiB are used"
    if free < _TOO_LITTLE:
        return failed(name, found, "make space: a full disk stops rounds")
    if free < max(_LITTLE, growing):
        return warning(name, found, "make space soon")
    return ok(name, found)


def certificate_check(name: str, path: Path, *, now: datetime) -> Check:
    """Check that a file holds a certificate that is valid today."""
    try:
        found = x509.load_pem_x509_certificate(path.read_bytes())
    except OSError as error:
        return attempt(name, error, "name the right file")
    except ValueError:
        return failed(name, f"{path} is not a certificate in PEM", "name the right file")
    if found.not_valid_before_utc > now:
        return failed(name, f"{path} is valid from {found.not_valid_before_utc:%Y-%m-%d %H:%M} UTC", "set the clock")
    checked = expiry_check(name, found.not_valid_after_utc, now=now)
    return checked._replace(found=f"{path}: {checked.found}")


def pair_check(ca: Path, certificate: Path, key: Path) -> Check:
    """Check that a certificate belongs to its private key and to its CA, and that others cannot read the key."""
    name = "TLS key"
    try:
        if key.stat().st_mode & 0o077:
            return failed(name, f"{key} may be read by others", f"chmod 600 {key}")
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key, password=lambda: b"")
        shown = x509.load_pem_x509_certificate(certificate.read_bytes())
        shown.verify_directly_issued_by(x509.load_pem_x509_certificate(ca.read_bytes()))
    except ssl.SSLError as error:
        return failed(name, f"{key} does not belong to {certificate} ({error.reason})", "name the pair that belongs")
    except OSError as error:
        return attempt(name, error, "name the right file")
    except Exception:  # noqa: BLE001  a signature, a name or a file in another form: each has an error of its own
        return failed(name, f"{certificate} is not of the CA {ca}", "name the CA that issued it, as nodes have it")
    return ok(name, f"{key} belongs to {certificate}, which is of {ca}")


def _commands() -> list[str]:
    asked = ["ps", "-A", "-ww", "-o", "args="]
    return subprocess.run(asked, capture_output=True, text=True, check=False).stdout.splitlines()  # noqa: S603


def _installed() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for name in ("f2ed", "flwr", "cryptography"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = ""
    return found


def _pair(number: str) -> tuple[int, int]:
    """Return the first two numbers of a version."""
    parts = [part for part in number.split(".")[:2] if part.isdecimal()]
    return (int(parts[0]), int(parts[1])) if len(parts) == 2 else (0, 0)
