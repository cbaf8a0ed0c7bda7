"""The gate: a node runs the apps that the authority signed, and no other, checked before a line of them is read.

Flower's own `--trusted-entities` refuses an app without the signature of a trusted key, and answers with an error. It
expects the signatures from its hub, by way of the SuperLink. Here the only trusted key is made at the start of the node
and never leaves this process; it signs an app once the roster that the node follows approves it. That is the roster to
which the agent answers, so an older file, or a weaker one that the site did not agree to, approves nothing. What the
server says about an app is thrown away. In a Flower that does not go through the gate nothing is ever signed, so every
app is refused.
"""

import base64
import hashlib
import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from functools import partial
from logging import getLogger
from typing import Any, final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from flwr.app import Error, Message
from flwr.cli.config_utils import get_fab_metadata
from flwr.common.constant import ErrorCode
from flwr.supercore.constant import TaskType
from flwr.supercore.fab import Fab
from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects, get_object_tree, no_object_id_recompute
from flwr.supercore.run import Run

from f2ed.core.errors import F2edError, Refusal
from f2ed.deployment.apps import check_app, is_unpinned
from f2ed.deployment.identity import followed_roster
from f2ed.deployment.roster import Roster

__all__ = ["REFUSED", "Gate"]

_log = getLogger("f2ed.flower")
_ENTITY = "f2ed"
REFUSED = Error(ErrorCode.INVALID_FAB, "this node refused the app; the reason is in its own log")
"""All that the server learns."""

Connect = Callable[..., AbstractContextManager[tuple[Any, ...]]]


@final
class Gate:
    """Decides which apps this node runs, by the roster as it is in that moment."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        """Read the roster of a node with these settings once, so that a node without a valid one does not start."""
        self._settings = dict(settings)
        self._key = Ed25519PrivateKey.generate()
        self.approved: dict[int, bytes] = {}
        """SHA-256 of the apps of all runs that were ever let in, for the agent, which asks the roster again."""
        self.roster()

    @property
    def trusted(self) -> dict[str, str]:
        """Whom Flower is to trust: the key of this gate alone."""
        public = self._key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
        return {_ENTITY: public.decode()}

    @property
    def unpinned(self) -> bool:
        """Whether the roster takes the risk of any app."""
        return is_unpinned(self.roster())

    def roster(self) -> Roster:
        """Return the roster that this node follows today; raise if it follows none."""
        return followed_roster(self._settings)

    def guard(self, connect: Connect) -> Connect:
        """Return Flower's connection to the SuperLink with this gate in it."""

        @contextmanager
        def guarded(*args: Any, **kwargs: Any) -> Iterator[tuple[Any, ...]]:
            with connect(*args, **kwargs) as (node, receive, send, get_run, get_fab, pull, push, confirm):
                post = _Post(self, receive, send, get_run, get_fab, push)
                yield node, post.receive, send, post.run, post.fab, pull, push, confirm

        return guarded

    def check(self, run: Run | None, run_id: int, content: bytes) -> None:
        """Refuse an app, or a run of it that would load other code than the app's own. Unpacks nothing before."""
        digest = hashlib.sha256(content)
        self.check_approved(digest.digest())
        if run is None or run.run_id != run_id or run.fab_hash != digest.hexdigest():
            raise Refusal(f"run {run_id} was described with another app or another number")
        if run.primary_task_type == TaskType.AGENT_APP:
            raise Refusal(f"run {run_id} is to run it as an AgentApp; this node runs ClientApps alone")
        if (run.fab_id, run.fab_version) != get_fab_metadata(content):
            raise Refusal(
                f"run {run_id} calls it {run.fab_id!r} {run.fab_version!r}, which it is not: code is loaded from a "
                "folder of that name"
            )

    def check_approved(self, sha256: bytes) -> None:
        """Refuse an app that the roster, as it is now, does not approve or no longer does."""
        check_app(self.roster(), sha256)

    def sign(self, content: bytes) -> dict[str, str]:
        """Return the signature of an approved app in the form that Flower checks."""
        now = int(time.time())
        signature = self._key.sign(now.to_bytes(8, "big") + hashlib.sha256(content).digest())
        encoded = base64.urlsafe_b64encode(signature).decode()
        return {_ENTITY: json.dumps({"signed_at": now, "signature": encoded})}


@final
class _Post:
    """The calls of one connection through which runs and apps arrive."""

    def __init__(self, gate: Gate, receive: Any, send: Any, get_run: Any, get_fab: Any, push: Any) -> None:
        self._gate = gate
        self._receive, self._send, self._push = receive, send, push
        self._get_run, self._get_fab = get_run, get_fab
        self._described: dict[int, Run] = {}
        self._approved: dict[int, bytes] = {}
        """SHA-256 of the apps of runs that were let in: Flower asks for them once only."""

    def receive(self) -> Any:
        """Return the next message; one for an app that was revoked is answered with an error."""
        received = self._receive()
        if received is None:
            return None
        message: Message = received[0]
        approved = self._approved.get(message.metadata.run_id)
        if approved is None:
            return received
        try:
            self._gate.check_approved(approved)
        except F2edError as error:
            _log.error("f2ed: this node refused a message for an app that is no longer approved: %s", error)
            self._refuse(message)
            return None
        return received

    def run(self, run_id: int) -> Run:
        """Return what the server says about a run; nothing is kept between runs."""
        found: Run = self._get_run(run_id)
        # The server would choose which earlier run's state the app gets to see.
        self._described[run_id] = run = replace(found, series_id=run_id)
        return run

    def fab(self, fab_hash: str, run_id: int) -> Fab:
        """Return an app, signed only if it is approved for this run."""
        fab: Fab = self._get_fab(fab_hash, run_id)
        digest = hashlib.sha256(fab.content)
        verifications = {"valid_license": _ENTITY}
        try:
            self._gate.check(self._described.pop(run_id, None), run_id, fab.content)
            verifications |= self._gate.sign(fab.content)
            self._approved[run_id] = self._gate.approved[run_id] = digest.digest()
            _log.info("f2ed: run %s uses an approved app, SHA-256 %s", run_id, digest.hexdigest())
        except Exception as error:  # noqa: BLE001  whatever is wrong with an app or with the roster, it does not run
            _log.error("f2ed: this node refused the app with SHA-256 %s: %s", digest.hexdigest(), error)
        # Flower's loop ends if the server gives another hash than the content's.
        return Fab(digest.hexdigest(), fab.content, verifications)

    def _refuse(self, message: Message) -> None:
        reply = Message(REFUSED, reply_to=message)
        reply.metadata.__dict__["_message_id"] = reply.object_id
        with no_object_id_recompute():
            wanted, session = self._send(reply, get_object_tree(reply), 0.0)
            push = partial(self._push, message.metadata.run_id, session)
            for name, each in get_all_nested_objects(reply).items():
                if name in wanted:
                    push(name, each.deflate())
