"""The page in a real browser: it opens without errors, shows every round, filters, and can be read by all."""

import csv
import io
import json
from base64 import b64encode
from itertools import pairwise

import numpy as np
import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select

from f2ed.audit.images import save_png
from f2ed.records import LeakReading, line
from f2ed.report import write_page
from tests.browser.chromium import browser, errors, opened, wait
from tests.report.report_runs import demo, deployed, deployed_record, header, record, save


@pytest.fixture
def page(desktop, demo_page):
    return opened(desktop, demo_page.as_uri())


def figures(driver, section):
    return driver.find_elements(By.CSS_SELECTOR, f"#{section} figure")


def traces(driver, section):
    """Scroll to a section, and return name and number of points of every line in it, panel by panel."""
    driver.execute_script("document.getElementById(arguments[0]).scrollIntoView({behavior: 'instant'})", section)
    wait(driver, f"return [...document.querySelectorAll('#{section} .plot:not([hidden])')].every(p => p.data)")
    return driver.execute_script(
        f"return [...document.querySelectorAll('#{section} .plot')].map(p => "
        "(p.data || []).filter(t => t.hoverinfo != 'skip').map(t => [t.name, (t.x || []).length]))"
    )


def milliseconds(driver, url):
    """Open a page three times and return the shortest time: the others say how busy the machine is."""
    return min(
        float(opened(driver, url).find_element(By.TAG_NAME, "html").get_attribute("data-ready")) for _ in range(3)
    )


def test_the_demos_page_opens_from_disk_without_errors_in_under_2_seconds(desktop, demo_page):
    assert milliseconds(desktop, demo_page.as_uri()) < 2000
    assert errors(desktop) == []


def test_nothing_is_fetched_from_anywhere(page):
    assert page.execute_script("return performance.getEntriesByType('resource').map(e => e.name)") == []


def test_every_curve_has_as_many_points_as_there_are_rounds(page):
    found = traces(page, "accuracy")
    assert len(found) == 4
    for panel in found:
        assert [count for _, count in panel] == [12] * 4
    assert [[count for _, count in panel] for panel in traces(page, "success")] == [[12] * 4]


def test_the_verdict_is_what_one_sees_first(page):
    headline = page.find_element(By.ID, "verdict-h")
    assert "FilterL2 held against all 3 attacks" in headline.text
    assert headline.rect["y"] < 300


def test_a_search_leaves_what_has_all_its_words(page):
    find = page.find_element(By.ID, "find")
    find.send_keys("krum filter")
    assert [[name for name, _ in panel] for panel in traces(page, "accuracy")] == [["FilterL2"]]
    find.clear()
    find.send_keys("nothing has this")
    assert figures(page, "accuracy") == []
    find.send_keys(Keys.CONTROL, "a")
    find.send_keys(Keys.DELETE)
    assert len(figures(page, "accuracy")) == 4


def values(driver, section):
    """Return the y values of the first line of a section."""
    traces(driver, section)
    line = f"document.querySelector('#{section} .plot').data.find(t => t.hoverinfo != 'skip')"
    return driver.execute_script(f"return Array.from({line}.y)")


def test_smoothing_averages_the_last_rounds(page):
    before = values(page, "loss")
    Select(page.find_element(By.ID, "smooth")).select_by_value("3")
    assert values(page, "loss") == pytest.approx(
        [np.mean(before[max(0, at - 2) : at + 1]) for at in range(len(before))], rel=1e-9
    )


def test_a_logarithmic_axis_shows_the_error_rate(page):
    before = values(page, "accuracy")
    page.find_element(By.ID, "log").click()
    assert values(page, "accuracy") == pytest.approx([1 - value for value in before])
    axis = page.execute_script("return document.querySelector('#accuracy .plot').layout.yaxis")
    assert (axis["type"], axis["title"]["text"]) == ("log", "error rate")


def test_estimators_and_attacks_can_be_left_out_by_keyboard(page):
    box = page.find_element(By.CSS_SELECTOR, "#estimators input[value='Krum']")
    box.send_keys(Keys.SPACE)
    assert all("Krum" not in [name for name, _ in panel] for panel in traces(page, "accuracy"))
    page.find_element(By.CSS_SELECTOR, "#attacks input[value='Krum attack']").send_keys(Keys.SPACE)
    assert len(figures(page, "accuracy")) == 3
    box.send_keys(Keys.SPACE)
    assert all("Krum" in [name for name, _ in panel] for panel in traces(page, "accuracy"))


def test_the_matrix_marks_the_worst_case_of_each_estimator_and_can_show_success(page):
    traces(page, "matrix")
    text = "return document.querySelector('#matrix .plot').data[0].text.flat()"
    assert sum("▼" in cell for cell in page.execute_script(text)) == 4
    Select(page.find_element(By.ID, "measure")).select_by_value("success")
    assert sum(cell != "" for cell in page.execute_script(text)) == 4


def test_the_shard_view_crosses_attackers_and_follows_the_chosen_run(page):
    def shown():
        traces(page, "shards")
        return page.execute_script(
            "const p = document.querySelector('#shards .plot'); "
            "return [p.hidden, p.data && p.data[0].z.length, p.data && p.data[1] && p.data[1].x.length]"
        )

    assert shown() == [False, 25, 10 * 12]
    choice = Select(page.find_element(By.ID, "run"))
    choice.select_by_visible_text("Trimmed-mean attack · Trimmed mean · seed 1")
    assert shown()[0]
    assert "chooses per coordinate" in page.find_element(By.CSS_SELECTOR, "#shards figcaption").text


def test_lambda_is_drawn_with_the_reasons_for_stopping(page):
    names = [name for name, _ in traces(page, "filter")[0]]
    assert set(names) == {"the remaining rows agree", "a weight of 2f is removed"}


def test_every_plot_has_a_caption_and_its_table(page):
    every = page.find_elements(By.CSS_SELECTOR, "main figure")
    assert len(every) == 4 + 1 + 4 + 1 + 1 + 1 + 2
    for figure in every:
        assert figure.find_element(By.TAG_NAME, "figcaption").text
        assert figure.find_element(By.CSS_SELECTOR, "[role=img]").get_attribute("aria-label")
        page.execute_script("arguments[0].open = true", figure.find_element(By.TAG_NAME, "details"))
        wait(page, "return arguments[0].querySelectorAll('tbody tr').length > 0", figure)
        assert figure.find_element(By.TAG_NAME, "caption").text


def test_what_an_audit_recovered_is_drawn_against_the_size_of_shards(desktop, tmp_path):
    path = save(tmp_path, header())
    audit = {"record": "audit", "attack": "inversion", "metric": "share", "low": 0.0, "high": 1.0, "guess": 0.1}
    with path.open("a") as file:
        file.writelines(json.dumps(audit | {"shard": size, "found": 0.9 / size}) + "\n" for size in (1, 4, 16))
    opened(desktop, write_page([tmp_path], tmp_path / "p.html").path.as_uri())
    assert traces(desktop, "recovered") == [[["found", 3], ["guessing", 3]]]
    assert errors(desktop) == []


def test_without_an_audit_or_a_meter_their_sections_are_not_there(page):
    assert not page.find_element(By.ID, "recovered").is_displayed()
    assert not page.find_element(By.ID, "meter").is_displayed()


def test_what_the_meter_read_is_drawn_for_each_setting(desktop, tmp_path):
    for schedule, exposed in (("fixed", 0), ("every-round", 100)):
        head = header(rounds=3, schedule={"type": schedule})
        rounds = [record(head, n, leak=LeakReading(rank=25, exposed=exposed, first=1, crowd=4)) for n in range(3)]
        (tmp_path / f"{schedule}.jsonl").write_bytes(b"".join(map(line, [head, *rounds])))
    opened(desktop, write_page([tmp_path], tmp_path / "p.html").path.as_uri())
    assert traces(desktop, "meter") == [[["resharded every round", 3], ["never resharded", 3]]] * 2
    assert "resharded every round: 100 of 100; never resharded: 0 of 100." in figures(desktop, "meter")[0].text
    assert errors(desktop) == []


def test_a_deployment_shows_weights_and_participation_and_no_accuracy(desktop, tmp_path):
    head = deployed(rounds=4)
    rounds = [deployed_record(head, number, dropped={number: "timed out"}) for number in range(3)]
    rounds.append(deployed_record(head, 3, skipped="too few shards opened", weights=None, crowd=0))
    (tmp_path / "audit.jsonl").write_bytes(b"".join(map(line, [head, *rounds])))
    opened(desktop, write_page([tmp_path], tmp_path / "p.html").path.as_uri())
    assert "Deployment: 4 rounds, 1 skipped." in desktop.find_element(By.ID, "verdict").text
    for hidden in ("accuracy", "success", "matrix"):
        assert not desktop.find_element(By.ID, hidden).is_displayed()
    named = [["shards opened", 4], ["smallest crowd", 4], ["clients dropped", 4], ["skipped", 1]]
    assert traces(desktop, "participation") == [named]
    assert "1 of 4 rounds were skipped" in figures(desktop, "participation")[0].text
    assert "cannot know who attacks" in figures(desktop, "shards")[0].text
    assert errors(desktop) == []


def test_pictures_of_an_audit_are_seen(desktop, tmp_path):
    path = save(tmp_path, header())
    save_png(tmp_path / "a.png", np.zeros((8, 12, 1), np.uint8), scale=1)
    png = b64encode((tmp_path / "a.png").read_bytes()).decode()
    with path.open("a") as file:
        for each in ({"record": "audit", "attack": "inversion"}, {"record": "picture", "caption": "four", "png": png}):
            file.write(json.dumps(each) + "\n")
    opened(desktop, write_page([tmp_path], tmp_path / "p.html").path.as_uri())
    image = desktop.find_element(By.CSS_SELECTOR, ".picture img")
    assert desktop.execute_script("return [arguments[0].naturalWidth, arguments[0].naturalHeight]", image) == [12, 8]
    assert errors(desktop) == []


def test_a_table_comes_down_as_csv(page):
    figure = figures(page, "accuracy")[0]
    page.execute_script("arguments[0].open = true", figure.find_element(By.TAG_NAME, "details"))
    wait(page, "return arguments[0].querySelector('button.csv')", figure)
    page.execute_script(
        "window.saved = null; URL.createObjectURL = (blob) => { blob.text().then((t) => { window.saved = t; }); "
        "return 'blob:none'; }; HTMLAnchorElement.prototype.click = function () { window.file = this.download; };"
    )
    page.execute_script("arguments[0].click()", figure.find_element(By.CSS_SELECTOR, "button.csv"))
    text = wait(page, "return window.saved")
    rows = list(csv.reader(io.StringIO(text)))
    assert rows[0][:4] == ["rounds completed", "Mean", "lowest seed", "highest seed"]
    assert [row[0] for row in rows[1:]] == [str(number) for number in range(1, 13)]
    assert page.execute_script("return window.file") == "f2ed-accuracy-no-attack.csv"


def test_headings_landmarks_and_labels_are_in_order(page):
    levels = [int(each.tag_name[1]) for each in page.find_elements(By.CSS_SELECTOR, "h1, h2, h3")]
    assert levels[0] == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))
    for tag in ("header", "nav", "main", "footer"):
        assert len(page.find_elements(By.CSS_SELECTOR, f"body > {tag}")) == 1
    unnamed = (
        "return [...document.querySelectorAll('select, input, button')].filter(e => e.checkVisibility() "
        "&& !(e.labels?.length || e.textContent.trim() || e.ariaLabel) && !e.closest('.plot')).length"
    )
    assert page.execute_script(unnamed) == 0


@pytest.mark.parametrize("phone", [False, True])
def test_light_and_dark_follow_the_system_and_the_button(demo_page, phone):
    with browser(*((390, 844) if phone else (1280, 900)), dark=True, phone=phone) as driver:
        opened(driver, demo_page.as_uri())
        background = "return getComputedStyle(document.body).backgroundColor"
        assert driver.execute_script(background) == "rgb(20, 23, 28)"
        driver.find_element(By.ID, "theme").click()
        assert driver.execute_script(background) == "rgb(255, 255, 255)"
        traces(driver, "accuracy")
        assert driver.execute_script("return document.documentElement.scrollWidth <= innerWidth")
        assert errors(driver) == []


def test_broken_records_are_named_and_the_rest_still_works(desktop, tmp_path):
    demo(tmp_path / "runs", estimators=("mean", "filter-l2"), attacks=("none", "trimmed-mean-attack"))
    torn = save(tmp_path / "runs", header(seed=3), name="torn")
    torn.write_bytes(torn.read_bytes()[:-20])
    (tmp_path / "runs" / "rubbish.jsonl").write_bytes(b"\xff\xfe rubbish\n")
    opened(desktop, write_page([tmp_path / "runs"], tmp_path / "p.html").path.as_uri())
    problems = desktop.find_element(By.ID, "problems").text
    assert "torn.jsonl, line 13" in problems
    assert "rubbish.jsonl" in problems
    assert [[count for _, count in panel] for panel in traces(desktop, "accuracy")] == [[12, 12], [12, 12]]
    assert errors(desktop) == []


def test_records_of_no_use_at_all_give_a_page_that_says_so(desktop, tmp_path):
    (tmp_path / "rubbish.jsonl").write_text("nothing\n")
    opened(desktop, write_page([tmp_path], tmp_path / "p.html").path.as_uri())
    assert "no run to show" in desktop.find_element(By.ID, "verdict-h").text
    assert errors(desktop) == []


def test_a_grid_of_72_runs_opens_in_under_4_seconds_and_its_settings_can_be_chosen(desktop, tmp_path):
    for data in ("mnist", "fashion-mnist"):
        names = ("mean", "krum", "trimmed-mean", "bulyan", "median", "filter-l2")
        attacks = ("none", "krum-attack", "trimmed-mean-attack", "model-poisoning", "model-replacement", "dba")
        demo(tmp_path / data, rounds=30, estimators=names, attacks=attacks, data={"kind": data})
    assert milliseconds(desktop, write_page([tmp_path], tmp_path / "grid.html").path.as_uri()) < 4000
    assert len(figures(desktop, "accuracy")) == 12
    Select(desktop.find_element(By.ID, "setting")).select_by_visible_text("mnist")
    assert len(figures(desktop, "accuracy")) == 6
    assert errors(desktop) == []
