"""The log of f2ed appears where Flower's own does: on the console, in files, and streamed by `flwr run --stream`."""

import logging

__all__ = ["show_in_flower"]

_FLOWER = logging.getLogger("flwr")


class _ToFlower(logging.Handler):
    """Hands every record to Flower's logger, which changes its handlers while it runs."""

    def emit(self, record: logging.LogRecord) -> None:
        _FLOWER.handle(record)


def show_in_flower() -> None:
    """Send what f2ed logs to Flower's handlers, once, and no longer to the root logger's directly."""
    logger = logging.getLogger("f2ed")
    if any(isinstance(handler, _ToFlower) for handler in logger.handlers):
        return
    logger.addHandler(_ToFlower())
    logger.propagate = False  # Flower's logger propagates; nobody reads a message twice.
    if logger.level == logging.NOTSET:
        logger.setLevel(logging.INFO)
