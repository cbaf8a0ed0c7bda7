"""Settings that are checked however they are made: read from a file, or written in Python.

msgspec checks types and ranges when it decodes; a constructor takes anything. A struct that derives from `Settings`
checks its fields in both cases, with the same sentence, and turns NumPy scalars into plain numbers.
"""

from functools import cache
from typing import Any, Literal, get_args, get_origin, get_type_hints

import msgspec
import numpy as np

from f2ed.core.errors import SettingError

__all__ = ["Settings", "choices"]


class Settings(msgspec.Struct, frozen=True):
    """A frozen struct whose constructor refuses values of a wrong type or out of range."""

    def __post_init__(self) -> None:
        """Check every field; a subclass with rules of its own calls this first."""
        for name, hint in _hints(type(self)).items():
            given = getattr(self, name)
            checked = self.checked(name, given.item() if isinstance(given, np.generic) else given, hint)
            if checked is not given:
                msgspec.structs.force_setattr(self, name, checked)

    @classmethod
    def checked(cls, name: str, given: Any, hint: Any) -> Any:
        """Return the value of a field as its type wants it, or refuse it."""
        if given is msgspec.UNSET:
            return given
        try:
            return msgspec.convert(given, hint)
        except msgspec.ValidationError as error:
            what = str(error).partition(" - at ")[0]
            if "enum value" in what:
                what = f"expected one of {', '.join(map(repr, choices(hint)))}"
            raise SettingError(f"{name}: {what[:1].lower()}{what[1:]} (found {given!r})") from None


def choices(hint: Any) -> list[str]:
    """Return the words that a type allows."""
    if get_origin(hint) is Literal:
        return list(get_args(hint))
    return [word for part in get_args(hint) for word in choices(part)]


@cache
def _hints(kind: type[Settings]) -> dict[str, Any]:
    hints = get_type_hints(kind, include_extras=True)
    return {name: hints[name] for name in kind.__struct_fields__}
