"""The settings of a plug-in in words: name, type with bounds or choices, and default."""

from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import inspect

__all__ = ["Setting", "settings_of"]

_MANY = 6
"""Structs in a union from which it is a whole registry, too long to spell out."""
_BOUNDS = (("ge", "≥"), ("gt", ">"), ("le", "≤"), ("lt", "<"))


class Setting(msgspec.Struct, frozen=True, omit_defaults=True):
    """One key of a plug-in's table; a `required` one has no default."""

    name: str
    type: str
    default: Any = None
    required: bool = False
    instead_of: tuple[str, ...] = ()
    """Settings of which exactly one is to be given, or none where the experiment determines it."""

    @property
    def default_text(self) -> str:
        """The default as an experiment file would state it."""
        if self.required:
            return "required"
        if self.instead_of:
            return f"or {' or '.join(self.instead_of)}"
        if self.default is None:
            return "optional"
        stated = self.default
        if isinstance(stated, dict):
            stated = {key: value for key, value in stated.items() if value is not None}
        return f"default {msgspec.json.encode(stated).decode()}"


def settings_of(struct: type[msgspec.Struct]) -> tuple[Setting, ...]:
    """Return the settings of a struct, alternatives first."""
    # `inspect` knows the types as msgspec reads them, `structs` the defaults, including UNSET.
    types = {field.encode_name: field.type for field in inspect.type_info(struct).fields}  # type: ignore[attr-defined]
    fields = msgspec.structs.fields(struct)
    unset = [field.encode_name for field in fields if field.default is msgspec.UNSET]
    found = [_setting(field, types[field.encode_name], unset) for field in fields]
    return tuple(sorted(found, key=lambda setting: setting.name not in unset))


def _setting(field: msgspec.structs.FieldInfo, type_: inspect.Type, unset: list[str]) -> Setting:
    name, default = field.encode_name, field.default
    if default is msgspec.NODEFAULT and field.default_factory is not msgspec.NODEFAULT:
        default = field.default_factory()
    return Setting(
        name=name,
        type=" | ".join(dict.fromkeys(_words(type_))),
        default=None if field.required or name in unset else msgspec.to_builtins(default),
        required=field.required,
        instead_of=tuple(other for other in unset if other != name) if name in unset else (),
    )


def _words(found: inspect.Type) -> Iterator[str]:
    """Yield the alternatives of a type, without None."""
    match found:
        case inspect.NoneType():
            return
        case inspect.UnionType():
            structs = [each for each in found.types if isinstance(each, inspect.StructType)]
            if len(structs) > _MANY:
                yield "any of these"
                return
            for each in found.types:
                yield from _words(each)
        case inspect.LiteralType():
            yield from (msgspec.json.encode(value).decode() for value in found.values)
        case inspect.StructType():
            keys = ", ".join(field.encode_name for field in found.fields)
            yield f'"{found.tag}"' if found.tag is not None else f"table of {keys}"
        case inspect.IntType():
            yield "integer" + _bounds(found)
        case inspect.FloatType():
            yield "number" + _bounds(found)
        case inspect.BoolType():
            yield "true"
            yield "false"
        case inspect.StrType():
            yield "text"
        case inspect.VarTupleType() | inspect.ListType():
            yield f"list of {' | '.join(_words(found.item_type))}"
        case inspect.DictType():
            yield "table"
        case _:
            yield type(found).__name__.removesuffix("Type").lower()


def _bounds(found: inspect.IntType | inspect.FloatType) -> str:
    stated = [f"{sign} {value:g}" for name, sign in _BOUNDS if (value := getattr(found, name)) is not None]
    return f" {' and '.join(stated)}" if stated else ""
