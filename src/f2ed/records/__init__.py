"""One format for what a run leaves behind, in simulation and deployment, and the words for it."""

from f2ed.records.schema import (
    Forecast,
    Reading,
    Record,
    RoundRecord,
    RunHeader,
    RunLog,
    Seconds,
    holds_records,
    line,
    read,
    read_folder,
    unpacked,
)

__all__ = [
    "Forecast",
    "Reading",
    "Record",
    "RoundRecord",
    "RunHeader",
    "RunLog",
    "Seconds",
    "holds_records",
    "line",
    "read",
    "read_folder",
    "unpacked",
]
