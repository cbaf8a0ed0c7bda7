"""The numbers of a round, flat: the columns of tables and exports."""

from math import isfinite

from msgspec import UNSET

from f2ed.records.schema import RoundRecord, Seconds

__all__ = ["COUNTS", "NUMBERS", "numbers"]

_SCALARS = (
    "accuracy",
    "loss",
    "metric",
    "success",
    "success_every",
    "success_unpoisoned",
    "eigenvalue",
    "iterations",
    "step",
    "clipped",
    "clipped_honest",
    "max_dp_epsilon",
    "shortened",
    "bytes_up",
    "bytes_down",
    "crowd",
)
_METER = ("rank", "exposed")
NUMBERS = (*_SCALARS, *_METER, *(f"seconds_{stage}" for stage in Seconds.__struct_fields__))
"""The names of the columns."""
COUNTS = frozenset({"iterations", "clipped", "clipped_honest", "shortened", "bytes_up", "bytes_down", "crowd", *_METER})
"""Those that are integers."""


def numbers(record: RoundRecord) -> dict[str, float | None]:
    """Return the numbers by name; None for what is not known or not finite."""
    found = (getattr(record, name) for name in _SCALARS)
    values = [None if value is UNSET else value for value in found]
    values += [None if record.leak is None else getattr(record.leak, name) for name in _METER]
    values += [getattr(record.seconds, stage) for stage in Seconds.__struct_fields__]
    finite = (value if value is not None and isfinite(value) else None for value in values)
    return dict(zip(NUMBERS, finite, strict=True))
