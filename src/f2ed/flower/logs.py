"""The log of f2ed appears where Flower's own does: on the console, in files, and streamed by `flwr run --stream`."""

import logging

from f2ed.core.errors import F2edError
from f2ed.deployment.json_log import log_json
from f2ed.flower.precision import explain

__all__ = ["show_in_flower"]

_log = logging.getLogger("f2ed.flower")

_ENDS = ("ServerApp raised", "Simulation raised")
"""How Flower's words begin when an exception ends a run."""


class _FlowerHandlers(logging.Handler):
    """Hands every record to the handlers that Flower's logger has at that moment: Flower replaces them as it runs."""

    def emit(self, record: logging.LogRecord) -> None:
        for handler in logging.getLogger("flwr").handlers:
            if record.levelno >= handler.level:
                handler.handle(record)


class _OneSentence(logging.Filter):
    """An error of f2ed that ends a run is logged as one sentence, without a traceback and Flower's help.

    With `FLWR_LOG_LEVEL=DEBUG` all of it stays.
    """

    def __init__(self) -> None:
        super().__init__()
        self._said = False

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether Flower's own record is shown."""
        error, text = record.exc_info[1] if record.exc_info else None, record.getMessage()
        explain(error)
        if any(handler.level <= logging.DEBUG for handler in logging.getLogger("flwr").handlers):
            return True
        if text.startswith(_ENDS):
            self._said = isinstance(error, F2edError)
            if self._said:
                _log.error("f2ed: the run failed: %s", error, extra={"event": "failed"})
            return not self._said
        return not (self._said and text.startswith("Exit Code:"))


def show_in_flower() -> None:
    """Show what f2ed logs in Flower's processes, once however often this is called."""
    logger = logging.getLogger("f2ed")
    if any(isinstance(handler, _FlowerHandlers) for handler in logger.handlers):
        return
    logger.addHandler(_FlowerHandlers())
    logging.getLogger("flwr").addFilter(_OneSentence())
    log_json()
    if logger.level == logging.NOTSET:
        logger.setLevel(logging.INFO)
