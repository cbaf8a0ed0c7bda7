"""The process of a helper: it holds the key, checks and stores everything, and answers the app on a Unix socket.

A Flower node runs code that the server chooses, so a helper's key must be out of its reach. The app on the helper's
node carries bytes from the server to this process, and back. What it could do beyond that, the server could as well.
"""

import os
import socket
from collections.abc import Callable, Mapping
from logging import getLogger
from pathlib import Path
from typing import Annotated, Any, final

import msgspec
from msgspec import Meta

from f2ed.core.errors import ConfigError, GoneError, PeerError, Refusal
from f2ed.deployment.agent.frames import receive, send
from f2ed.deployment.agent.listener import Listener
from f2ed.deployment.hello import HelperHello, helper_hello_text
from f2ed.deployment.helper_store import HelperStore
from f2ed.deployment.identity import followed_roster, state_folder
from f2ed.deployment.key_memory import key_folder
from f2ed.deployment.roster import HelperRole, Roster, acceptance, helpers_of
from f2ed.deployment.transparency import LogFile
from f2ed.deployment.transparency.lines import HELPERS
from f2ed.protocol.helpers import Helper
from f2ed.protocol.helpers.messages import Refused, decode, write
from f2ed.protocol.helpers.requests import AskOpening
from f2ed.protocol.primitives.crypto import KEY_BYTES, public_key, sign

__all__ = ["HELPER", "Answered", "HelperAgent", "carry", "greet"]

_log = getLogger("f2ed.deployment")

HELPER = "f2ed-helper"
"""The setting of a helper's node that names the socket of `f2ed helper`."""
_MOST = 2**31
"""Bytes of a request or reply."""
_PATIENCE = 60.0
_NOT_SET_UP = "this helper is not set up; its own log says why"


@final
class Carried(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="carried"):
    """A request of the server, as it reached the app."""

    run: Annotated[int, Meta(ge=0)]
    """Flower's number of the run, which makes the job's name."""
    request: bytes


@final
class Greeted(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="greeted"):
    """The server asks who is behind a node."""

    run: Annotated[int, Meta(ge=0)]
    node: Annotated[int, Meta(ge=0)]
    """Flower's number of the node."""
    nonce: Annotated[bytes, Meta(min_length=KEY_BYTES, max_length=KEY_BYTES)]


@final
class Answered(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="answered"):
    """The reply to the server."""

    reply: bytes
    line: bytes = b""
    """The newest line of the helper's log, where there is one."""


@final
class HelperAgent(Listener):
    """Answers as the mixer or judge. `settings` are those of a node: key, roster, authority and state."""

    def __init__(self, role: HelperRole, key: bytes, settings: Mapping[str, Any], *, uid: int) -> None:
        super().__init__(uid=uid)
        self._role, self._key, self._settings = role, key, dict(settings)

    def start(self, *, first: bool) -> Roster:
        """Check everything before the first request, and return the roster that this helper follows.

        `first` makes the memory of a helper that never served this federation. One that lost it must not: it could
        answer a round twice.
        """
        roster = followed_roster(self._settings)
        store = self._store(roster, run=0)
        if first:
            store.begin()
        elif not store.path.exists():
            raise ConfigError(
                f"this {self._role} has no memory in {store.path}; a helper that never served this federation is "
                "started with --first, and one that did must not go on without it: restore it, or let the authority "
                "name a new helper with a new key"
            )
        store.log_begun()
        return roster

    def answer(self, run: int, request: bytes) -> Answered:
        """Answer a request of the server; the new state and the log are on the disk before this returns."""

        def step() -> Answered:
            store = self._store(followed_roster(self._settings), run=run)
            if _opens(request):
                store.take_up()
            reply = store.answer(request, os.urandom)
            return Answered(reply, store.line)

        return self._refusing(step)

    def hello(self, run: int, node: int, nonce: bytes) -> Answered:
        """State that this helper is behind a node and can serve."""

        def step() -> Answered:
            roster = followed_roster(self._settings)
            self._store(roster, run=run).check()
            text = helper_hello_text(roster.job(run), node, self._role, roster.digest, nonce)
            signature = sign(self._key, text)
            return Answered(msgspec.msgpack.encode(HelperHello(self._role, roster.digest, signature)))

        return self._refusing(step)

    def _refusing(self, step: Callable[[], Answered]) -> Answered:
        """Return what a step answers; or a refusal, whose text does not depend on anything private."""
        try:
            return step()
        except PeerError as error:
            _log.warning("f2ed: this %s refused: %s", self._role, error)
            return Answered(write(Refused(str(error)[:500])))
        except ConfigError as error:
            _log.error("f2ed: this %s cannot answer: %s", self._role, error)
            return Answered(write(Refused(_NOT_SET_UP)))

    def _converse(self, app: socket.socket) -> None:
        app.settimeout(_PATIENCE)
        asked: Carried | Greeted = receive(app, Carried | Greeted, most=_MOST)
        if isinstance(asked, Greeted):
            send(app, self.hello(asked.run, asked.node, asked.nonce))
        else:
            send(app, self.answer(asked.run, asked.request))

    def _helper(self, roster: Roster, *, run: int) -> Helper:
        entry = helpers_of(roster).party(self._role)
        if entry is None or entry.key != public_key(self._key):
            raise Refusal(
                f"the roster {roster.name!r} (serial {roster.serial}) names another key for the {self._role} than "
                "this helper has"
            )
        return Helper(
            role=self._role,
            operator=entry.operator,
            signing_key=self._key,
            roster=roster.keys,
            policy=roster.digest,
            job=roster.job(run),
            accept=acceptance(roster),
        )

    def _store(self, roster: Roster, *, run: int) -> HelperStore:
        """Return the memory of a federation: survivors and strikes of another one are no matter here."""
        name, folder = f"{self._role}-{roster.lineage}.helper", state_folder(self._settings)
        keys = self._settings.get("f2ed-keys")
        rounds = key_folder(folder) if keys is None else Path(str(keys))
        author, log = HELPERS[self._role], folder / f"{roster.lineage}.log"
        file = LogFile(log, author, self._key, roster.lineage, roster.digest, roster.serial)
        return HelperStore(folder, self._helper(roster, run=run), name=name, rounds=rounds, log=file)


def carry(path: str, run: int, request: bytes) -> Answered:
    """Put a request before the helper that listens on this socket, and return its reply and its log's newest line."""
    return _asked(path, Carried(run, request))


def greet(path: str, run: int, node: int, nonce: bytes) -> Answered:
    """Ask the helper that listens on this socket who it is, and return its reply."""
    if len(nonce) != KEY_BYTES:
        raise Refusal(f"a question of {len(nonce)} bytes; {KEY_BYTES} were expected")
    return _asked(path, Greeted(run, node, nonce))


def _asked(path: str, message: Carried | Greeted) -> Answered:
    try:
        with socket.socket(socket.AF_UNIX) as helper:
            helper.connect(path)
            send(helper, message)
            found: Answered = receive(helper, Answered, most=_MOST)
            return found
    except (OSError, GoneError) as error:
        raise ConfigError(
            f"the helper at {Path(path)} gave no answer ({error}); f2ed helper must be running and allow this user"
        ) from None


def _opens(request: bytes) -> bool:
    """Return whether a request begins a round: only then a helper goes on to another job."""
    try:
        decode((AskOpening,), request)
    except PeerError:
        return False
    return True
