"""Debian's Chromium, driven without a window."""

import shutil
from contextlib import contextmanager

from selenium import webdriver
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.support.ui import WebDriverWait

FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--hide-scrollbars",
    "--force-device-scale-factor=1",
)


def missing():
    """Return the programs that are not installed."""
    return [name for name in ("chromium", "chromedriver") if shutil.which(name) is None]


@contextmanager
def browser(width=1280, height=900, *, dark=False, phone=False):
    """Open a browser of this size; a phone has a narrow viewport, a finger and no mouse."""
    options = Options()
    options.binary_location = shutil.which("chromium")
    for flag in FLAGS:
        options.add_argument(flag)
    options.add_argument(f"--window-size={width},{height}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))
    try:
        metrics = {"width": width, "height": height, "deviceScaleFactor": 2 if phone else 1, "mobile": phone}
        driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        if phone:
            driver.execute_cdp_cmd("Emulation.setTouchEmulationEnabled", {"enabled": True})
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})
        yield driver
    finally:
        driver.quit()


def opened(driver, url):
    """Open a page, with nothing remembered from the one before, and wait until it is drawn."""
    driver.get_log("browser")
    driver.get(url)
    driver.execute_script("try { localStorage.clear() } catch {}")
    wait(driver, "return document.documentElement.dataset.ready")
    return driver


def wait(driver, script, *arguments):
    """Wait until a script returns something true, and return it."""
    return WebDriverWait(driver, 20, poll_frequency=0.05).until(lambda _: driver.execute_script(script, *arguments))


def errors(driver):
    """Return what the console complained about."""
    return [entry["message"] for entry in driver.get_log("browser") if entry["level"] in {"SEVERE", "WARNING"}]
