"""The secure-aggregation schemes: one file each, this registry, and the default choice.

To add a scheme, write its file and enter it in `SCHEMES` and `MaskedMode`.
"""

from typing import Literal, cast

from f2ed.core.errors import ConfigError
from f2ed.protocol.secagg.messages import Request, decode
from f2ed.protocol.secagg.schemes.all_or_nothing import AllOrNothing
from f2ed.protocol.secagg.schemes.base import Quorum, Scheme
from f2ed.protocol.secagg.schemes.clear import Clear
from f2ed.protocol.secagg.schemes.dropout_tolerant import DropoutTolerant
from f2ed.protocol.secagg.state import Phase

__all__ = [
    "MAX_ALL_OR_NOTHING",
    "SCHEMES",
    "AllOrNothing",
    "Clear",
    "DropoutTolerant",
    "MaskedMode",
    "Mode",
    "ModeChoice",
    "Quorum",
    "Scheme",
    "choose_mode",
    "phases",
    "read_request",
    "scheme_of",
]

MaskedMode = Literal["all-or-nothing", "dropout-tolerant"]
"""The schemes that an operator may choose, by name."""
Mode = Literal[MaskedMode, "clear"]
ModeChoice = Literal["auto", MaskedMode]

SCHEMES: dict[str, Scheme] = {each.mode: each for each in (AllOrNothing(), DropoutTolerant(), Clear())}

MAX_ALL_OR_NOTHING = 10
"""Up to this many members, a shard is all-or-nothing by default; a larger one would lose too many rounds."""


def scheme_of(mode: str) -> Scheme:
    """Return the scheme of this name, or raise `ConfigError` that lists the known ones."""
    if mode not in SCHEMES:
        raise ConfigError(f"an unknown mode {mode[:40]!r}; choose one of {', '.join(SCHEMES)}")
    return SCHEMES[mode]


def choose_mode(mode: ModeChoice, members: int) -> MaskedMode:
    """Return the mode of a shard of this size; "auto" decides by the size."""
    if mode != "auto":
        return mode
    return AllOrNothing.mode if members <= MAX_ALL_OR_NOTHING else DropoutTolerant.mode


def read_request(data: bytes) -> Request:
    """Read what the server sent, under any scheme; raise `PeerError` for anything else."""
    kinds = dict.fromkeys(kind for scheme in SCHEMES.values() for kind in scheme.steps)
    return cast("Request", decode(tuple(kinds), data))


def phases() -> tuple[type[Phase], ...]:
    """Return every phase in which a client may be between two steps."""
    return tuple(phase for scheme in SCHEMES.values() for phase in scheme.phases)
