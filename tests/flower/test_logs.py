"""An error of f2ed ends a run with one sentence in its log; any other error keeps its traceback."""

import logging

import pytest

import f2ed.flower  # noqa: F401  it adds the filter
from f2ed.core.errors import ConfigError

FLOWER = logging.getLogger("flwr")


@pytest.fixture
def shown():
    """The lines that Flower's handlers show at level INFO, as in a run."""
    lines = []

    class Lines(logging.Handler):
        def emit(self, record):
            lines.append(self.format(record))

    handlers = FLOWER.handlers
    FLOWER.handlers = [Lines(logging.INFO)]
    yield lines
    FLOWER.handlers = handlers


def end_with(error, *, who="ServerApp"):
    """Log what Flower 1.41 logs when an app raises."""
    FLOWER.error("%s raised an exception", who, exc_info=error)
    FLOWER.error("Exit Code: 201\n\nAn unhandled exception occurred in the ServerApp.")


@pytest.mark.parametrize("who", ["ServerApp", "Simulation"])
def test_an_error_of_ours_ends_a_run_with_one_sentence(shown, who):
    end_with(ConfigError("no roster.json here; name another"), who=who)
    assert shown == ["f2ed: the run failed: no roster.json here; name another"]


def test_an_error_of_the_app_keeps_its_traceback_and_flowers_help(shown):
    end_with(ZeroDivisionError("by zero"))
    assert len(shown) == 2
    assert "ZeroDivisionError: by zero" in shown[0]


def test_a_log_for_developers_keeps_the_traceback(shown):
    FLOWER.handlers[0].setLevel(logging.DEBUG)
    end_with(ConfigError("no roster.json here; name another"))
    assert "ConfigError: no roster.json" in shown[0]
