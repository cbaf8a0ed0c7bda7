"""The layout of the model that a node has trained under a roster: the names, types and shapes of its arrays.

Where the authority signed no layout, a node pins the first that it trains: a server that later sends a model with
more, wider or other layers, built to reveal more of the data, is refused. A roster that is signed again, and each app
that it approves, starts afresh.
"""

from pathlib import Path
from typing import final

import msgspec

from f2ed.core.errors import Refusal
from f2ed.core.files import StoredValue

__all__ = ["LayoutPin"]


@final
class _Pinned(msgspec.Struct, frozen=True):
    roster: bytes
    layouts: dict[str, bytes]
    """By the SHA-256 of the app, in hexadecimal."""


@final
class LayoutPin(msgspec.Struct, frozen=True):
    """The file that records the layouts, for the roster with this digest."""

    path: Path
    roster: bytes

    def check(self, app: bytes, found: bytes) -> None:
        """Refuse another layout than the pinned one, if one is pinned."""
        self._check(self._stored().read(), app, found)

    def pin(self, app: bytes, found: bytes) -> bool:
        """Pin a layout if none is pinned, and return whether it is new; refuse another than the pinned one."""
        with self._stored().hold() as held:
            layouts = self._check(held.before, app, found)
            if new := app.hex() not in layouts:
                held.write(_Pinned(self.roster, layouts | {app.hex(): found}))
        return new

    def _check(self, pinned: _Pinned | None, app: bytes, found: bytes) -> dict[str, bytes]:
        layouts = pinned.layouts if pinned is not None and pinned.roster == self.roster else {}
        if found != (wanted := layouts.get(app.hex(), found)):
            raise Refusal(
                f"a model of layout {found.hex()}; under this roster the node has trained {wanted.hex()}. For another "
                "model the authority signs the roster again"
            )
        return layouts

    def _stored(self) -> StoredValue[_Pinned]:
        return StoredValue(
            self.path,
            _Pinned,
            "the layout of the model",
            "delete the file, and the next model is pinned",
            "name another folder with f2ed-state in the node config",
        )
