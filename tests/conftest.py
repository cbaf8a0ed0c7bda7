"""A run of the whole suite fails if a test that the security documents name did not run and pass.

With pytest-xdist the workers collect and the controller judges, so what a worker left for the night travels to it.
"""

import importlib.util
import sys

import pytest

from tests.named_tests import Outcomes, is_whole, named_in_pages

_outcomes = Outcomes()
_nightly = set()
_unproven = pytest.StashKey()


def pytest_deselected(items):
    """Remember what runs at night only."""
    _nightly.update(item.nodeid.partition("[")[0] for item in items if item.get_closest_marker("nightly"))


def pytest_runtest_logreport(report):
    """Remember what passed; a set-up that passes is nothing yet."""
    if report.when == "call" or report.outcome != "passed":
        _outcomes.add(report.nodeid, report.outcome)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node):
    """Learn from a worker what runs at night only."""
    _nightly.update(getattr(node, "workeroutput", {}).get("nightly", ()))


def pytest_sessionfinish(session):
    """Compare with the documents. Without Flower, and on other systems than Linux, not all of these tests can run."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["nightly"] = sorted(_nightly)
        return
    if is_whole(session.config) and sys.platform == "linux" and importlib.util.find_spec("flwr") is not None:
        session.config.stash[_unproven] = _outcomes.unproven(named_in_pages(), _nightly)
        if session.config.stash[_unproven] and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter, config):
    """Name the tests that the documents cannot rely on."""
    for name in config.stash.get(_unproven, []):
        terminalreporter.write_line(f"named in the security documents, but did not pass here: {name}", red=True)
