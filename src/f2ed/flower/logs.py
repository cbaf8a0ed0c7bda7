"""The log of f2ed appears where Flower's own does: on the console, in files, and streamed by `flwr run --stream`."""

import logging

from f2ed.deployment.json_log import log_json

__all__ = ["show_in_flower"]


class _FlowerHandlers(logging.Handler):
    """Hands every record to the handlers that Flower's logger has at that moment: Flower replaces them as it runs."""

    def emit(self, record: logging.LogRecord) -> None:
        for handler in logging.getLogger("flwr").handlers:
            if record.levelno >= handler.level:
                handler.handle(record)


def show_in_flower() -> None:
    """Show what f2ed logs in Flower's processes, once however often this is called."""
    logger = logging.getLogger("f2ed")
    if any(isinstance(handler, _FlowerHandlers) for handler in logger.handlers):
        return
    logger.addHandler(_FlowerHandlers())
    log_json()
    if logger.level == logging.NOTSET:
        logger.setLevel(logging.INFO)
