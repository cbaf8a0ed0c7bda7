"""The options of `f2ed roster sign` for buffers, and for the clips of single arrays."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Any

import msgspec
from cyclopts import Parameter

from f2ed.core.errors import ConfigError
from f2ed.deployment.roster import Risk, Roster, revised
from f2ed.protocol.aggregation import ArrayClip, BufferPolicy, Buffers

__all__ = ["ArrayOptions"]


@Parameter(name="*")
@dataclass(frozen=True)
class ArrayOptions:
    """What changes in the rules for buffers; whatever is None stays as it was signed before."""

    buffers: Annotated[
        BufferPolicy | None,
        Parameter(
            help="What happens to statistics such as BatchNorm's: average, as at first, keep the server's, or local to "
            "each node (with --accept stateful)."
        ),
    ] = None
    buffer_clip: Annotated[
        float | None, Parameter(help="Largest magnitude of a coordinate of a buffer's change in a round; at first 10.")
    ] = None
    buffer: Annotated[
        list[str] | None,
        Parameter(negative="", help="Pattern for the names of arrays that are buffers, as in '*running_mean'."),
    ] = None
    array_clip: Annotated[
        list[str] | None,
        Parameter(
            negative="--no-array-clip",
            help="Largest magnitude of a coordinate in arrays of some names, as in 'head.*=0.1'; the first that fits.",
        ),
    ] = None

    def applied(self, draft: Roster, accepted: Iterable[Risk]) -> Roster:
        """Return the draft with the rules to be signed; a roster that was never signed gets the first ones."""
        if self == ArrayOptions() and (draft.serial or draft.array_rules is not None):
            return draft
        given: dict[str, Any] = {
            "policy": self.buffers,
            "clip_value": self.buffer_clip,
            "names": None if self.buffer is None else tuple(self.buffer),
            "clips": None if self.array_clip is None else tuple(map(_clip, self.array_clip)),
        }
        before = draft.array_rules or Buffers()
        rules = msgspec.structs.replace(before, **{name: to for name, to in given.items() if to is not None})
        return revised(draft, buffers=rules, accepted=tuple(dict.fromkeys(accepted)))


def _clip(text: str) -> ArrayClip:
    names, _, number = text.rpartition("=")
    try:
        return msgspec.convert({"names": names, "clip_value": float(number)}, ArrayClip)
    except ValueError as error:
        raise ConfigError(f"--array-clip {text} ({error}); write it as PATTERN=VALUE, as in 'head.*=0.1'") from None
