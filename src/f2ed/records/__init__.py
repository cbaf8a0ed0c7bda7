"""One format for the records of simulations and deployments, its reader, and the sentences about it."""

from f2ed.records.digest import settings_digest
from f2ed.records.reader import (
    archive_of,
    experiment_name,
    holds_records,
    locate,
    read,
    read_all,
    read_folder,
    unpacked,
)
from f2ed.records.schema import (
    FORMAT,
    Blamed,
    Deployed,
    LeakForecast,
    LeakReading,
    NoiseRecord,
    Plugin,
    Record,
    RoundRecord,
    RunHeader,
    RunLog,
    Seconds,
    line,
)

__all__ = [
    "FORMAT",
    "Blamed",
    "Deployed",
    "LeakForecast",
    "LeakReading",
    "NoiseRecord",
    "Plugin",
    "Record",
    "RoundRecord",
    "RunHeader",
    "RunLog",
    "Seconds",
    "archive_of",
    "experiment_name",
    "holds_records",
    "line",
    "locate",
    "read",
    "read_all",
    "read_folder",
    "settings_digest",
    "unpacked",
]
