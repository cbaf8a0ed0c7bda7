"""A helper's memory on disk: one file for each job and policy, written before a reply leaves.

A helper that answered a round twice would open two sums. So its state is locked while a request is answered, and
replaced durably before the reply is returned. A file that is missing is not made again by itself: `begin` makes it,
once, when the operator takes up the job.
"""

import hashlib
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import final

from f2ed.core.errors import ConfigError
from f2ed.core.files import Lock, locked
from f2ed.protocol.helpers import JUDGE, Helper, begin_job, follow_job, respond_as_judge, respond_as_mixer

__all__ = ["HelperStore"]

Entropy = Callable[[int], bytes]
"""Returns fresh bytes: `os.urandom`."""


@final
class HelperStore:
    """Answers requests to a helper from a folder that only its user may enter."""

    def __init__(self, folder: Path, helper: Helper, *, name: str = "") -> None:
        """Keep the job's state in a file of its own, or in the one of this name, which goes from job to job."""
        self._helper = helper
        job = hashlib.sha256(helper.job.encode()).hexdigest()[:32]
        self.path = folder / (name or f"{helper.role}-{helper.policy.hex()[:16]}-{job}")

    def begin(self) -> None:
        """Take up the job: make its state; refuse where there is one."""
        with self._locked() as lock:
            if self.path.exists():
                raise ConfigError(f"{self.path} exists: this {self._helper.role} has taken up the job already")
            lock.write(self.path, begin_job(self._helper.policy, self._helper.job))

    def check(self) -> None:
        """Refuse to serve without a memory."""
        follow_job(self._read(), self._helper)

    def take_up(self) -> None:
        """Go on to this job, if the state is still of another one; refuse where there is none."""
        with self._locked() as lock:
            before = self._read()
            if (after := follow_job(before, self._helper)) != before:
                lock.write(self.path, after)

    def answer(self, request: bytes, entropy: Entropy) -> bytes:
        """Answer a request; the new state is on the disk before this returns."""
        respond = respond_as_judge if self._helper.role == JUDGE else respond_as_mixer
        with self._locked() as lock:
            before = self._read()
            found = respond(self._helper, before, request, entropy=entropy(32), half=entropy(32))
            if found.state != before:
                lock.write(self.path, found.state)
        return found.reply

    def _read(self) -> bytes:
        return self.path.read_bytes() if self.path.exists() else b""

    def _locked(self) -> AbstractContextManager[Lock]:
        return locked(self.path, remedy=f"stop the other process that serves as this {self._helper.role}")
