"""Encrypted key files: one standard form, a passphrase from a named source, and plain words when it does not open."""

import io
import os
import shutil
import subprocess

import pytest

from f2ed.cli.roster import add, encrypt, key, new, sign
from f2ed.core.errors import ConfigError
from f2ed.deployment import passphrase as sources
from f2ed.deployment.encrypted_key import ENTROPY, is_encrypted
from f2ed.deployment.keyfiles import (
    Encryption,
    read_private,
    read_public,
    read_secret,
    write_pair,
    write_secret,
)
from f2ed.protocol.secagg import public_key

WORDS = b"correct horse battery"
VARIABLE, PROMPT = "env:WORDS", "prompt"
SEED = bytes(range(32))


@pytest.fixture(autouse=True)
def clean(monkeypatch):
    monkeypatch.delenv(sources.SOURCE, raising=False)
    sources._read.cache_clear()
    yield
    sources._read.cache_clear()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return a folder with an encrypted key, and its passphrase in a file."""
    place = tmp_path_factory.mktemp("keys")
    write_pair(place / "mine.key", SEED, Encryption(WORDS, bytes(ENTROPY)))
    words = place / "words"
    words.write_bytes(WORDS + b"\n")
    words.chmod(0o600)
    return place


def refused(path, source=""):
    with pytest.raises(ConfigError) as error:
        read_private(path, source)
    return str(error.value)


def test_a_key_comes_back_from_its_encrypted_file(folder):
    assert is_encrypted((folder / "mine.key").read_bytes())
    assert read_private(folder / "mine.key", f"file:{folder / 'words'}") == SEED
    assert read_public(folder / "mine.pub") == public_key(SEED)
    assert (folder / "mine.key").stat().st_mode & 0o777 == 0o600


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not here to read the file")
def test_openssl_reads_the_file_and_finds_scrypt(folder):
    command = [shutil.which("openssl"), "pkey", "-in", str(folder / "mine.key"), "-passin", f"pass:{WORDS.decode()}"]
    plain = subprocess.run(command, capture_output=True, check=True).stdout
    copy = folder / "openssl.key"
    copy.write_bytes(plain)
    copy.chmod(0o600)
    assert read_private(copy) == SEED
    shown = subprocess.run(
        [shutil.which("openssl"), "asn1parse", "-in", str(folder / "mine.key")],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert ":scrypt" in shown
    assert ":aes-256-cbc" in shown


def test_the_passphrase_may_come_from_a_descriptor_a_variable_or_a_credential(folder, monkeypatch):
    reading, writing = os.pipe()
    os.write(writing, WORDS + b"\n")
    os.close(writing)
    assert read_private(folder / "mine.key", f"fd:{reading}") == SEED
    # A node reads its key with every message, and the descriptor is empty by then.
    assert read_private(folder / "mine.key", f"fd:{reading}") == SEED
    monkeypatch.setenv("WORDS", WORDS.decode())
    assert read_private(folder / "mine.key", "env:WORDS") == SEED
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(folder))
    assert read_private(folder / "mine.key", "credential:words") == SEED
    monkeypatch.setenv(sources.SOURCE, "env:WORDS")
    assert read_private(folder / "mine.key") == SEED


def test_a_person_is_asked_once(folder, monkeypatch):
    asked = []
    monkeypatch.setattr(sources, "getpass", lambda text: asked.append(text) or WORDS.decode())
    assert [read_private(folder / "mine.key", "prompt") for _ in range(2)] == [SEED, SEED]
    assert asked == [f"Passphrase of {folder / 'mine.key'}: "]


def test_without_a_terminal_or_a_source_it_is_said_how_to_name_one(folder, monkeypatch):
    monkeypatch.setattr("sys.stdin", None)
    assert "is encrypted, and no passphrase was given; name its source with F2ED_PASSPHRASE" in refused(
        folder / "mine.key"
    )


@pytest.mark.parametrize("stream", ["", "typed where it is shown\n"])
def test_a_passphrase_is_not_read_where_it_would_be_shown(folder, monkeypatch, stream):
    def no_terminal(*_):
        raise OSError(6, "No such device or address")

    monkeypatch.setattr("os.open", no_terminal)
    monkeypatch.setattr("sys.stdin", io.StringIO(stream))
    assert "there is no terminal to type a passphrase at; name another source: prompt, fd:N" in refused(
        folder / "mine.key", "prompt"
    )


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("env:WRONG", "does not open with this passphrase"),
        ("env:EMPTY", "is empty"),
        ("env:UNSET", "the environment variable UNSET, which is not set"),
        ("credential:words", "systemd gave this process no credential words"),
        ("file:/nowhere/words", "cannot be read from file:/nowhere/words"),
        ("fd:987", "cannot be read from fd:987"),
        ("fd:three", "is not a source of a passphrase"),
        ("secret", "is not a source of a passphrase"),
    ],
)
def test_what_does_not_open_the_key_is_named(folder, monkeypatch, source, words):
    monkeypatch.setenv("WRONG", "incorrect horse battery")
    monkeypatch.setenv("EMPTY", "")
    monkeypatch.delenv("CREDENTIALS_DIRECTORY", raising=False)
    assert words in refused(folder / "mine.key", source)


def test_a_passphrase_that_others_may_read_is_refused(folder):
    (folder / "open").write_bytes(WORDS)
    (folder / "open").chmod(0o644)
    assert "may be read by others" in refused(folder / "mine.key", f"file:{folder / 'open'}")


def test_a_short_passphrase_is_refused_and_two_different_ones_too(tmp_path, monkeypatch):
    monkeypatch.setenv("WORDS", "horse")
    with pytest.raises(ConfigError, match="a passphrase of 5 characters"):
        key(tmp_path / "a.key", passphrase=VARIABLE)
    typed = iter(["correct horse battery", "correct horse batteries"])
    monkeypatch.setattr(sources, "getpass", lambda _: next(typed))
    with pytest.raises(ConfigError, match="two different passphrases"):
        key(tmp_path / "a.key", passphrase=PROMPT)
    assert list(tmp_path.iterdir()) == []


def test_the_chain_is_encrypted_with_the_authority_and_signs(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("WORDS", WORDS.decode())
    new(tmp_path / "roster.json", name="clinics", authority=tmp_path / "authority.key", passphrase=VARIABLE)
    for client in range(4):
        key(tmp_path / f"clinic_{client}.key")
    add(tmp_path / "roster.json", [tmp_path / f"clinic_{client}.pub" for client in range(4)])
    assert is_encrypted((tmp_path / "authority.chain").read_bytes())
    sign(
        tmp_path / "roster.json",
        authority=tmp_path / "authority.key",
        shards=1,
        min_crowd=4,
        passphrase=VARIABLE,
        accept=["unpinned-app"],
    )
    assert "Signed" in capsys.readouterr().out


def test_an_existing_key_and_a_chain_are_encrypted_in_place(tmp_path, monkeypatch):
    monkeypatch.setenv("WORDS", WORDS.decode())
    write_pair(tmp_path / "a.key", SEED)
    write_secret(tmp_path / "a.chain", SEED[::-1])
    for name in ("a.key", "a.chain"):
        encrypt(tmp_path / name, passphrase=VARIABLE)
        assert is_encrypted((tmp_path / name).read_bytes())
    assert read_private(tmp_path / "a.key", "env:WORDS") == SEED
    assert read_secret(tmp_path / "a.chain", "env:WORDS") == SEED[::-1]
    with pytest.raises(ConfigError, match="is encrypted already"):
        encrypt(tmp_path / "a.key", passphrase=VARIABLE)


def test_no_passphrase_is_shown():
    assert "horse" not in repr(Encryption(WORDS, b""))
