"""The parts of a roster that name helpers: who runs them, with which keys, and how updates are hidden with them."""

from typing import Annotated, Literal, final

import msgspec
from msgspec import Meta

from f2ed.deployment.roster.parts import Key
from f2ed.estimators import AnyEstimator, FilterL2
from f2ed.protocol.helpers import HelpersProtocol

__all__ = ["Countersignature", "HelperEntry", "HelperRole", "Helpers", "Operator"]

HelperRole = Literal["mixer", "judge"]
Operator = Annotated[str, Meta(min_length=1, max_length=256)]
_DEFAULT = FilterL2(contamination=0.1)


@final
class HelperEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A helper."""

    role: HelperRole
    operator: Operator
    """Who runs it."""
    key: Key
    """Its public Ed25519 key."""


@final
class Helpers(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The two parties besides the server, and the protocol with them. The server's key is that of its log."""

    operator: Annotated[str, Meta(max_length=256)] = ""
    """Who runs the server; empty in a draft."""
    parties: Annotated[tuple[HelperEntry, ...], Meta(max_length=2)] = ()
    settings: HelpersProtocol = HelpersProtocol()
    rule: AnyEstimator = _DEFAULT
    """What the judge applies to the Gram matrix."""

    def party(self, role: HelperRole) -> HelperEntry | None:
        """Return the helper in a role, if one is named."""
        return next((each for each in self.parties if each.role == role), None)


@final
class Countersignature(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A helper's consent to serve under a roster, in a role, for an operator. It is no part of the roster's digest."""

    role: HelperRole
    signature: Annotated[bytes, Meta(min_length=64, max_length=64)]
