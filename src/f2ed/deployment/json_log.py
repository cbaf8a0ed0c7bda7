"""What f2ed logs, as JSON lines for a program: `F2ED_LOG_JSON=/var/log/f2ed/node.jsonl`, or `-` for standard error.

The lines for people stay as they are. A line has `time` (UTC), `level`, `logger`, `pid` and `message`, and what the
place that logged it added, such as `event` and `round`.
"""

import logging
import os
from collections.abc import Mapping
from datetime import UTC, datetime
from logging.handlers import WatchedFileHandler
from pathlib import Path

import msgspec

from f2ed.core.errors import ConfigError

__all__ = ["VARIABLE", "JsonLines", "log_json"]

VARIABLE = "F2ED_LOG_JSON"
_PREFIX = "f2ed: "
_ADDED = ("event", "round")


class JsonLines(logging.Formatter):
    """One JSON object per record."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        found = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "pid": record.process,
            "message": record.getMessage().removeprefix(_PREFIX),
        }
        found |= {name: getattr(record, name) for name in _ADDED if hasattr(record, name)}
        if record.exc_info:
            found["traceback"] = self.formatException(record.exc_info)
        return msgspec.json.encode(found).decode()


def log_json(environment: Mapping[str, str] = os.environ, logger: logging.Logger | None = None) -> None:
    """Add the handler that the environment asks for, once; the file may be rotated by moving it away."""
    where = environment.get(VARIABLE, "")
    logger = logger or logging.getLogger("f2ed")
    if not where or any(isinstance(each.formatter, JsonLines) for each in logger.handlers):
        return
    handler: logging.Handler
    try:
        if where == "-":
            handler = logging.StreamHandler()
        else:
            Path(where).touch(mode=0o640)
            handler = WatchedFileHandler(where, encoding="utf-8")
    except OSError as error:
        raise ConfigError(
            f"the log {where} cannot be written: {error.strerror}; name another with {VARIABLE}, or - for stderr"
        ) from None
    handler.setFormatter(JsonLines())
    logger.addHandler(handler)
