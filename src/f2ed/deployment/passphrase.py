"""Where the passphrase of a key file comes from: it is named by its source and never given as an argument.

    prompt              typed at the terminal
    fd:3                read from an open file descriptor
    file:PATH           read from a file that only its user may read
    credential:NAME     a credential of systemd (LoadCredential=, LoadCredentialEncrypted=)
    env:NAME            the value of an environment variable

A command or a setting names the source; otherwise the environment variable F2ED_PASSPHRASE does, and without it a
person at a terminal is asked.
"""

import os
import sys
import warnings
from functools import lru_cache
from getpass import GetPassWarning, getpass
from pathlib import Path

from f2ed.core.errors import ConfigError

__all__ = ["SOURCE", "SOURCES", "new_passphrase", "passphrase"]

SOURCE = "F2ED_PASSPHRASE"
"""The environment variable that names the source."""
SOURCES = "prompt, fd:N, file:PATH, credential:NAME or env:NAME"
_SHORTEST = 12


def passphrase(path: Path, source: str = "") -> bytes:
    """Return the passphrase of a key file."""
    source = source or os.environ.get(SOURCE, "") or ("prompt" if sys.stdin is not None and sys.stdin.isatty() else "")
    if not source:
        raise ConfigError(
            f"{path} is encrypted, and no passphrase was given; name its source with {SOURCE}, as {SOURCES}"
        )
    # The same source is not read twice: a descriptor is empty then, and a person would be asked for every message.
    return _read(source, str(path) if source == "prompt" else "")


def new_passphrase(path: Path, source: str) -> bytes:
    """Return the passphrase for a new key file; refuse one that is short, or typed in two ways."""
    found = passphrase(path, source)
    if len(found) < _SHORTEST:
        raise ConfigError(f"a passphrase of {len(found)} characters for {path}; choose one of {_SHORTEST} or more")
    if source == "prompt" and _typed(f"The same again for {path}: ") != found:
        raise ConfigError(f"two different passphrases for {path}; nothing was written, try again")
    return found


@lru_cache(maxsize=16)
def _read(source: str, prompted: str) -> bytes:
    kind, _, name = source.partition(":")
    try:
        if kind == "prompt" and not name:
            return _typed(f"Passphrase of {prompted}: ")
        if kind == "fd" and name.isdecimal():
            with os.fdopen(int(name), "rb") as file:
                return _line(file.read(), source)
        if kind == "file" and name:
            return _line(_private(Path(name)), source)
        if kind == "credential" and name:
            return _line(_credential(name).read_bytes(), source)
        if kind == "env" and name in os.environ:
            return _line(os.environ[name].encode(), source)
    except OSError as error:
        raise ConfigError(f"the passphrase cannot be read from {source}: {error}; check the source") from None
    if kind == "env" and name:
        raise ConfigError(f"the passphrase is to be in the environment variable {name}, which is not set; set it")
    raise ConfigError(f"{source!r} is not a source of a passphrase; write {SOURCES}")


def _typed(prompt: str) -> bytes:
    """Return what a person types, where it is not shown; refuse to read it anywhere else."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", GetPassWarning)
            return getpass(prompt).encode()
    except (GetPassWarning, EOFError):
        raise ConfigError(f"there is no terminal to type a passphrase at; name another source: {SOURCES}") from None


def _private(path: Path) -> bytes:
    if path.stat().st_mode & 0o077:
        raise ConfigError(f"the passphrase in {path} may be read by others; run: chmod 600 {path}")
    return path.read_bytes()


def _credential(name: str) -> Path:
    folder = os.environ.get("CREDENTIALS_DIRECTORY")
    if folder is None:
        raise ConfigError(f"systemd gave this process no credential {name}; add LoadCredential={name}:PATH to its unit")
    return Path(folder) / name


def _line(content: bytes, source: str) -> bytes:
    found = content.rstrip(b"\r\n")
    if not found:
        raise ConfigError(f"the passphrase from {source} is empty; check the source")
    return found
