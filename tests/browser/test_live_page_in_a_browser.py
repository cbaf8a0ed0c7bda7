"""The live page: it gains a point with each round, and outlives its server."""

import threading
from itertools import count

from selenium.webdriver.common.by import By

from f2ed.records import line
from f2ed.report.watch import serve
from tests.browser.chromium import errors, opened, wait
from tests.report.report_runs import header, record, save

POINTS = (
    "return document.querySelector('#accuracy .plot')?.data?.filter(t => t.hoverinfo != 'skip').map(t => t.x.length)"
)


def append(path, *records):
    with path.open("ab") as file:
        file.write(b"".join(map(line, records)))


def until(driver, script, wanted):
    wait(driver, f"return JSON.stringify((() => {{ {script} }})()) === arguments[0]", wanted)


def test_a_line_that_is_appended_becomes_a_point(desktop, tmp_path):
    head = header(attack="none", rounds=20)
    path = save(tmp_path, head, rounds=3)
    with serve(tmp_path) as url:
        opened(desktop, url)
        until(desktop, POINTS, "[3]")
        append(path, record(head, 3))
        until(desktop, POINTS, "[4]")
        append(path, record(head, 4), record(head, 5))
        until(desktop, POINTS, "[6]")
        assert "0 of 1 run has reached" in desktop.find_element(By.ID, "verdict").text
        assert desktop.find_element(By.ID, "live").text == "live"
        assert errors(desktop) == []


def test_further_runs_join_a_page_that_is_open_and_what_was_left_out_stays_out(desktop, tmp_path):
    save(tmp_path, header(attack="none", rounds=4))
    with serve(tmp_path) as url:
        opened(desktop, url)
        until(desktop, POINTS, "[4]")
        save(tmp_path, header(attack="none", estimator="mean", rounds=4))
        until(desktop, POINTS, "[4,4]")
        desktop.find_element(By.CSS_SELECTOR, "#estimators input[value='Mean']").click()
        save(tmp_path, header(attack="none", estimator="krum", rounds=4))
        until(desktop, "return document.querySelectorAll('#estimators input').length", "3")
        until(desktop, POINTS, "[4,4]")


def test_the_page_goes_on_when_run_and_server_are_started_again(desktop, tmp_path):
    head = header(attack="none", rounds=20)
    save(tmp_path, head, rounds=5)
    with serve(tmp_path) as url:
        opened(desktop, url)
        until(desktop, POINTS, "[5]")
    wait(desktop, "return document.getElementById('live').className === 'off'")
    save(tmp_path, head, rounds=2)
    with serve(tmp_path, int(url.rsplit(":", 1)[1].strip("/"))):
        until(desktop, POINTS, "[2]")
        assert desktop.find_element(By.ID, "live").text == "live"
    desktop.get("about:blank")
    errors(desktop)  # the lost connection was reported, as it should be


def test_the_page_stays_responsive_while_a_run_writes_20_rounds_a_second_and_memory_does_not_grow(desktop, tmp_path):
    head = header(rounds=100_000)
    path = save(tmp_path, head, rounds=1200)
    ended = threading.Event()

    def write():
        for number in count(1200):
            append(path, record(head, number))
            if ended.wait(0.05):
                return

    writer = threading.Thread(target=write)
    with serve(tmp_path) as url:
        opened(desktop, url)
        writer.start()
        try:
            slowest = desktop.execute_async_script(
                "const done = arguments[0]; let last = performance.now(), slowest = 0; const end = last + 5000;"
                "const tick = () => { const now = performance.now(); slowest = Math.max(slowest, now - last);"
                "last = now; now < end ? setTimeout(tick, 10) : done(slowest); }; tick();"
            )
            used = [_heap(desktop)]
            desktop.execute_async_script("setTimeout(arguments[0], 5000)")
            used.append(_heap(desktop))
        finally:
            ended.set()
            writer.join()
        assert slowest < 1000
        assert used[1] < used[0] * 1.25 + 5e6
        points = desktop.execute_script(POINTS)
        assert points[0] <= 1001
        assert errors(desktop) == []


def _heap(driver):
    driver.execute_cdp_cmd("HeapProfiler.collectGarbage", {})
    return driver.execute_cdp_cmd("Runtime.getHeapUsage", {})["usedSize"]
