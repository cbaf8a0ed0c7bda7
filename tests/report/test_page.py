"""The page as text; what a browser makes of it is tested in tests/browser."""

import json
import re
from base64 import b64encode

import pytest

from f2ed.records import LeakForecast, LeakReading, line
from f2ed.records.reader import read_runs
from f2ed.report import write_page
from f2ed.report.payload import payload
from tests.report.report_runs import demo, deployed, deployed_record, header, record, save


def data_of(page):
    return json.loads(re.search(r'id="records">(.*?)</script>', page, re.DOTALL)[1])


@pytest.fixture(scope="module")
def demo_page(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    summary = write_page([demo(folder / "my demo", seeds=(0, 1))], folder / "out" / "report.html")
    return summary, summary.path.read_text(encoding="utf-8")


def test_the_page_is_one_file_that_fetches_nothing(demo_page):
    _, text = demo_page
    outside = re.sub(r"<script>.*?</script>", "", text, flags=re.DOTALL)
    assert not re.search(r"""(src|href)=["'](?!data:|#)""", outside)
    assert "default-src 'none'" in text


def test_the_demos_page_weighs_less_than_6_mb(demo_page):
    summary, _ = demo_page
    assert summary.path.stat().st_size < 6e6


def test_the_verdict_is_there_without_a_script(demo_page):
    summary, text = demo_page
    assert summary.headline in text.partition("<script")[0]


def test_a_curve_has_a_point_for_every_round_and_the_spread_over_seeds(demo_page):
    arms = data_of(demo_page[1])["arms"].values()
    assert len(arms) == 16
    for arm in arms:
        assert arm["accuracy"]["rounds"] == list(range(12))
        assert all(
            low <= mean <= high
            for low, mean, high in zip(*(arm["accuracy"][key] for key in ("low", "mean", "high")), strict=True)
        )


def test_the_heading_is_the_folders_name(demo_page):
    assert "<h1>my demo</h1>" in demo_page[1]


def test_a_grid_of_72_runs_of_30_rounds_weighs_less_than_10_mb(tmp_path):
    for data in ("mnist", "fashion-mnist"):
        names = ("mean", "krum", "trimmed-mean", "bulyan", "median", "filter-l2")
        attacks = ("none", "krum-attack", "trimmed-mean-attack", "model-poisoning", "model-replacement", "dba")
        demo(tmp_path / data, rounds=30, estimators=names, attacks=attacks, shards=100, data={"kind": data})
    summary = write_page([tmp_path], tmp_path / "grid.html")
    assert summary.runs == 72
    assert summary.path.stat().st_size < 10e6


def test_what_records_say_cannot_become_markup(tmp_path):
    evil = "</script><img src=x onerror=alert(1)>"
    save(tmp_path, header(attack="none", name=evil, device=evil, arm={"estimator": evil}), name="evil")
    text = write_page([tmp_path], tmp_path / "p.html", title=evil).path.read_text(encoding="utf-8")
    assert "<img src=x" not in text
    assert data_of(text)["runs"]["evil.jsonl"]["device"] == evil


def test_problems_are_named_on_the_page_and_the_rest_is_shown(tmp_path):
    demo(tmp_path, estimators=("mean",), attacks=("none", "krum-attack"))
    broken = save(tmp_path, header(seed=7), name="torn")
    broken.write_bytes(broken.read_bytes()[:-9])
    (tmp_path / "rubbish.jsonl").write_text("what is this?\n")
    summary = write_page([tmp_path], tmp_path / "p.html")
    head = summary.path.read_text(encoding="utf-8").partition("<script")[0]
    assert summary.runs == 3
    assert "<code>torn.jsonl</code>, line 13" in head
    assert "<code>rubbish.jsonl</code>" in head


def test_a_number_that_is_not_one_becomes_a_gap(tmp_path):
    head = header(rounds=3)
    rounds = [record(head, number, accuracy=value) for number, value in enumerate((0.1, float("nan"), 0.3))]
    (tmp_path / "gap.jsonl").write_bytes(b"".join(map(line, [head, *rounds])))
    (arm,) = payload(*read_runs([tmp_path]))["arms"].values()
    assert arm["accuracy"]["mean"] == [0.1, None, 0.3]
    assert arm["end"]["accuracy"] == 0.3


def test_a_contaminated_shard_that_has_no_weight_breaks_nothing(tmp_path):
    head = header(rounds=1)
    short = record(head, 0, weights=(1.0,), contaminated=(0, 24))
    (tmp_path / "odd.jsonl").write_bytes(line(head) + line(short))
    (run,) = payload(*read_runs([tmp_path]))["runs"].values()
    assert run["columns"]["contaminated_weight"] == [1]


def test_what_an_audit_recovered_is_on_the_page(tmp_path):
    path = save(tmp_path, header())
    path.write_bytes(path.read_bytes() + b'{"record":"audit","attack":"inversion","recovered":0.25}\n')
    found = payload(*read_runs([tmp_path]))
    assert found["audits"]["columns"] == ["file", "attack", "recovered"]
    assert found["audits"]["rows"] == [[path.name, "inversion", "0.25"]]
    text = write_page([tmp_path], tmp_path / "p.html").path.read_text(encoding="utf-8")
    assert "What the audit recovered" in text


def test_a_crowd_is_told_for_each_setting(tmp_path):
    save(tmp_path, header(shards=25))
    save(tmp_path, header(shards=10, schedule={"type": "every-k-rounds", "k": 5}), name="resharded")
    save(tmp_path, header(shards=100, mode="none", crowd=1), name="bare")
    rows = {row["crowd"]: row for row in payload(*read_runs([tmp_path]))["privacy"]}
    assert set(rows) == {"4", "10", "1"}
    assert rows["10"]["schedule"] == "resharded every 5 rounds"
    assert rows["1"]["secrecy"] == "none: no shards, every update is seen"


FORECAST = LeakForecast(exposed=100, first=5, last=5, crowd=1, cosine=0.991, leaks=True)
PNG = b64encode(b"\x89PNG\r\n and so on").decode()


def metered(folder, readings, **settings):
    head = header(rounds=len(readings), **settings)
    rounds = [record(head, number, leak=reading) for number, reading in enumerate(readings)]
    (folder / f"{head.name}{len(readings)}.jsonl").write_bytes(b"".join(map(line, [head, *rounds])))


def test_what_the_meter_read_is_told_for_each_setting_and_round(tmp_path):
    grown = [LeakReading(rank=25, exposed=0, first=None, crowd=4), LeakReading(rank=100, exposed=97, first=2, crowd=1)]
    metered(tmp_path, grown, schedule={"type": "every-round"}, forecast=FORECAST)
    metered(tmp_path, grown[:1], schedule={"type": "batches", "size": 2, "k": 1})
    found = payload(*read_runs([tmp_path]))
    rows = {row["schedule"]: row for row in found["privacy"]}
    assert rows["resharded every round"]["determined"] == "97 of 100, first after 2 rounds"
    assert rows["resharded every round"]["forecast"] == "cosine 0.99"
    assert rows["groups of 2, resharded every round"]["determined"] == "no client, no group below 4"
    assert sorted(run["columns"]["exposed"] for run in found["runs"].values()) == [[0], [0, 97]]
    (told,) = {run["forecast"] for run in found["runs"].values()} - {None}
    assert told.startswith("Over 2 rounds the sums determine all 100 clients individually, after 5 rounds;")


def test_a_deployment_has_a_page_without_accuracy(tmp_path):
    head = deployed(rounds=4)
    reading = LeakReading(rank=25, exposed=0, first=None, crowd=4)
    rounds = [deployed_record(head, number, leak=reading, dropped={2**63 + 5: "timed out"}) for number in range(2)]
    rounds.append(deployed_record(head, 2, skipped="only 3 of 25 shards opened", weights=None, crowd=0))
    (tmp_path / "live.jsonl").write_bytes(b"".join(map(line, [head, *rounds])))
    summary = write_page([tmp_path], tmp_path / "p.html")
    assert summary.problems == ()
    assert summary.headline == "Deployment: 3 rounds, 1 skipped."
    found = data_of(summary.path.read_text(encoding="utf-8"))
    (run,), (arm,) = found["runs"].values(), found["arms"].values()
    assert (arm["accuracy"], arm["success"], arm["attack"]) == (None, None, "deployment")
    assert (run["source"], run["knows_attackers"]) == ("deployment", False)
    assert (run["skipped"][2], run["dropped"], run["columns"]["crowd"]) == (
        "only 3 of 25 shards opened",
        [1, 1, 0],
        [4, 4, 0],
    )


def test_records_without_a_meter_claim_nothing(tmp_path):
    save(tmp_path, header())
    (row,) = payload(*read_runs([tmp_path]))["privacy"]
    assert (row["determined"], row["forecast"]) == ("—", "—")


def test_pictures_of_an_audit_are_on_the_page(tmp_path):
    path = save(tmp_path, header())
    lines = [{"record": "audit", "attack": "inversion"}, {"record": "picture", "caption": "shard of 4", "png": PNG}]
    path.write_bytes(path.read_bytes() + b"".join(json.dumps(each).encode() + b"\n" for each in lines))
    summary = write_page([tmp_path], tmp_path / "p.html")
    assert summary.problems == ()
    assert f'src="data:image/png;base64,{PNG}"' in summary.path.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "png", ["not base64!", b64encode(b"<svg onload=alert(1)>").decode(), PNG + "A" * 4 * (1 << 17), 7, None]
)
def test_a_picture_that_is_none_is_named_and_not_shown(tmp_path, png):
    path = save(tmp_path, header())
    with path.open("a") as file:
        file.write(json.dumps({"record": "picture", "caption": "odd", "png": png}) + "\n")
    runs, (problem,) = read_runs([tmp_path])
    assert runs[0].pictures == ()
    assert "picture that cannot be shown" in problem.text
