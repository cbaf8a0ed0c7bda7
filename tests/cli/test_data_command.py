"""`f2ed data` says what is where, fetches on request and refuses with one sentence."""

import gzip
import hashlib
import json

import msgspec
import pytest

from f2ed.cli import data as command
from f2ed.cli.app import app
from f2ed.core.errors import ConfigError
from f2ed.learning.datasets import MNIST
from f2ed.learning.datasets.archive import FetchError

LABELS = bytes([0, 0, 8, 1, 0, 0, 0, 2, 3, 4])
SUM = hashlib.sha256(LABELS).hexdigest()
TINY = msgspec.structs.replace(MNIST, train_images=SUM, train_labels=SUM, test_images=SUM, test_labels=SUM)


@pytest.fixture(autouse=True)
def _tiny_mnist_and_an_own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("F2ED_DATA", raising=False)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setitem(command._ARCHIVES, "mnist", TINY)


def put(folder, content=LABELS):
    folder.mkdir(parents=True, exist_ok=True)
    for name in TINY.files:
        (folder / f"{name}.gz").write_bytes(gzip.compress(content))


def run(line):
    with pytest.raises(SystemExit) as done:
        app(f"data {line}")
    return done.value.code


def listed(capsys, line):
    assert not run(f"{line} --json")
    return {entry["name"]: entry for entry in json.loads(capsys.readouterr().out)}


def test_every_data_set_is_listed_with_its_state_and_how_to_get_it(capsys):
    assert not run("mnist digits")
    shown = capsys.readouterr().out
    assert "digits" in shown
    assert "built-in" in shown
    assert "f2ed data mnist --fetch" in shown


def test_a_named_folder_is_looked_at_and_its_files_are_checked(tmp_path, capsys):
    put(tmp_path / "mine" / "mnist")
    entry = listed(capsys, f"mnist --data {tmp_path / 'mine'}")["mnist"]
    assert (entry["state"], entry["place"]) == ("ready", "the given folder")
    assert entry["folder"] == str(tmp_path / "mine" / "mnist")
    put(tmp_path / "mine" / "mnist", LABELS[:-1] + b"\x09")
    entry = listed(capsys, f"mnist --data {tmp_path / 'mine'}")["mnist"]
    assert entry["state"] == "damaged"
    assert "train-images" in entry["problem"]


def test_without_names_all_are_listed(capsys, monkeypatch):
    monkeypatch.setattr(command, "find", lambda *_: None)
    files = {"mnist", "fashion-mnist", "cifar-10", "shakespeare", "newsgroups", "adult", "minilm"}
    assert set(listed(capsys, "")) == {*files, "digits", "synthetic"}


def test_fetching_shows_what_was_tried_and_ends_with_the_files_in_the_cache(tmp_path, capsys, monkeypatch):
    def closed(*_):
        raise FetchError("this way is closed")

    def opened(_archive, to, progress, _say):
        progress("a file", 1, 2)
        put(to)

    monkeypatch.setattr(command, "FETCHERS", (closed, opened))
    assert not run("mnist --fetch --json")
    captured = capsys.readouterr()
    assert "this way is closed" in captured.err
    (entry,) = json.loads(captured.out)
    assert entry["state"] == "ready"
    assert entry["folder"] == str(tmp_path / "cache" / "f2ed" / "mnist")


def test_what_cannot_be_fetched_ends_in_one_sentence(monkeypatch):
    monkeypatch.setattr(command, "FETCHERS", ())
    with pytest.raises(ConfigError, match="mnist was not found in"):
        app("data mnist --fetch")


def test_fetching_does_not_pass_over_a_damaged_file(tmp_path):
    put(tmp_path / "cache" / "f2ed" / "mnist", LABELS[:-1])
    with pytest.raises(ConfigError, match=r"train-images-idx3-ubyte\.gz has 9 bytes, expected 10"):
        app("data mnist --fetch")


def test_an_unknown_name_is_refused_with_the_known_ones():
    with pytest.raises(ConfigError, match=r"no data set 'cifar'; choose from mnist, fashion-mnist, cifar-10"):
        app("data cifar")
