"""Photograph the report of real records for the README and the docs: python docs/scripts/screenshot.py.

Needs what `make test-browser` sets up. Writes docs/figures/report.png and report_dark.png: the verdict and the curves;
report_shards.png: the weight of each shard.
"""

import sys
import tempfile
from base64 import b64decode
from pathlib import Path

from PIL import Image

from f2ed.records import read_all
from f2ed.records.archive import packed
from f2ed.report import write_page

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests" / "browser"))

from chromium import browser, opened, wait  # noqa: E402  it lies in the folder just named

WIDTH, HEIGHT = 1180, 900


ATTACKS = {"none", "TMA (released)", "MPA (released)", "MRA (released)"}
ESTIMATORS = {"Mean", "Krum", "Trimmed Mean", "FilterL2"}


def main() -> None:
    """Write the pictures."""
    figures = ROOT / "docs" / "figures"
    with tempfile.TemporaryDirectory() as folder:
        some = Path(folder) / "fig2_shards.jsonl.xz"
        some.write_bytes(packed(log for log in read_all(ROOT / "results" / "fig2_shards") if chosen(log.header.arm)))
        page = write_page([some], Path(folder) / "report.html", title="Some of Figure 2").path
        for name, dark in (("report", False), ("report_dark", True)):
            with browser(WIDTH, HEIGHT, dark=dark) as driver:
                opened(driver, page.as_uri())
                drawn(driver, "accuracy")
                driver.execute_script("scrollTo({top: 0, behavior: 'instant'})")
                photograph(driver, figures / f"{name}.png")
                if not dark:
                    choose(driver, "TMA (released) · FilterL2 · seed 0")
                    drawn(driver, "shards")
                    photograph(driver, figures / "report_shards.png", driver.execute_script(PLACE))


def chosen(arm: dict[str, str]) -> bool:
    """Return whether a run is on the picture."""
    wanted = {"seed": {"0"}, "data": {"mnist"}, "attack": ATTACKS, "estimator": ESTIMATORS}
    return all(arm.get(setting) in values for setting, values in wanted.items())


PLACE = """
const r = document.querySelector('#shards figure').getBoundingClientRect();
return {x: r.x + scrollX, y: r.y + scrollY, width: r.width, height: r.height, scale: 1};
"""


def drawn(driver, section: str) -> None:  # noqa: ANN001  selenium is not there where types are checked
    """Scroll to a section and wait for its plots."""
    driver.execute_script("document.getElementById(arguments[0]).scrollIntoView({behavior: 'instant'})", section)
    wait(driver, f"return [...document.querySelectorAll('#{section} .plot')].every(p => p.querySelector('.main-svg'))")


def choose(driver, title: str) -> None:  # noqa: ANN001
    """Select the run of that title, if there is one."""
    for option in driver.find_elements("css selector", "#run option"):
        if option.get_attribute("textContent") == title:
            option.click()


def photograph(driver, path: Path, clip: dict[str, float] | None = None) -> None:  # noqa: ANN001
    """Write what the window shows, or a part of the page."""
    wanted = {"clip": clip, "captureBeyondViewport": True} if clip else {}
    path.write_bytes(b64decode(driver.execute_cdp_cmd("Page.captureScreenshot", wanted)["data"]))
    Image.open(path).convert("RGB").save(path, optimize=True)


if __name__ == "__main__":
    main()
