"""A running node names what keeps it from its SuperLink: Flower by itself tries again, and says nothing about why."""

import threading
from collections.abc import Callable
from datetime import UTC, datetime
from logging import getLogger
from pathlib import Path
from typing import NamedTuple

from f2ed.deployment.doctor.connection import Reading, connection_checks, contact

__all__ = ["ConnectionWatch"]

_log = getLogger("f2ed.deployment")

_EVERY = 60.0
_REPEAT = 3600.0
"""Seconds after which a warning is repeated; failures are named each time."""


class ConnectionWatch(NamedTuple):
    """Looks at the connection every minute, in a thread of its own."""

    address: str
    ca: Path
    contact: Callable[[str, Path], Reading] = contact
    every: float = _EVERY

    def start(self, stop: threading.Event) -> threading.Thread:
        """Look now, and again until stopped."""
        thread = threading.Thread(target=self._run, args=(stop,), daemon=True, name="f2ed-connection")
        thread.start()
        return thread

    def _run(self, stop: threading.Event) -> None:
        said: dict[str, float] = {}
        looks = 0
        while True:
            self._look(said, looks * self.every)
            looks += 1
            if stop.wait(self.every):
                return

    def _look(self, said: dict[str, float], passed: float) -> None:
        """Log what is wrong; a warning again after an hour only, and once that all is well again."""
        checks = connection_checks(self.address, self.contact(self.address, self.ca), now=datetime.now(UTC))
        failures = [check for check in checks if check.status == "failed"]
        for check in failures:
            _log.error("f2ed: %s: %s; %s", check.name, check.found, check.remedy)
        if failures:
            said["failure"] = passed
            return
        if said.pop("failure", None) is not None:
            _log.info("f2ed: the SuperLink at %s answers again", self.address)
        for check in checks:
            if check.status == "warning" and passed - said.get(check.name, -_REPEAT) >= _REPEAT:
                said[check.name] = passed
                _log.warning("f2ed: %s: %s; %s", check.name, check.found, check.remedy)
