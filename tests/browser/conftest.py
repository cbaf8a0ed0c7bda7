"""Run by `make test-browser` alone: plain `pytest` does not collect what needs a browser."""

import pytest

from f2ed.report import write_page
from tests.browser import chromium
from tests.report.report_runs import demo


@pytest.fixture(scope="session", autouse=True)
def _installed():
    if missing := chromium.missing():
        pytest.fail(f"{' and '.join(missing)} not found; on Debian: apt-get install chromium chromium-driver")


@pytest.fixture(scope="session")
def desktop():
    """One browser for all tests that need no other size."""
    with chromium.browser() as driver:
        yield driver


@pytest.fixture(scope="session")
def demo_page(tmp_path_factory):
    folder = tmp_path_factory.mktemp("page")
    return write_page([demo(folder / "demo", seeds=(0, 1))], folder / "demo.html").path
