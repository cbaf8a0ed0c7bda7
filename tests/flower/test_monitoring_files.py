"""The dashboard and the alerts to copy: they ask for metrics that exist, with labels that those have."""

import json
import re
from pathlib import Path

import pytest

from f2ed.deployment.metrics import METRICS, run_samples, watch_records
from tests.deployment.deployed_run import GOOD, REJECTED, write_run

yaml = pytest.importorskip("yaml")

FOLDER = Path(__file__).parents[2] / "deploy" / "monitoring"
PAGE = (FOLDER.parents[1] / "docs" / "operations.md").read_text()
RULES = [rule for group in yaml.safe_load((FOLDER / "alerts.yaml").read_text())["groups"] for rule in group["rules"]]
DASHBOARD = json.loads((FOLDER / "dashboard.json").read_text())
TARGETS = [(panel["title"], target) for panel in DASHBOARD["panels"] for target in panel["targets"]]
QUERIES = [*(rule["expr"] for rule in RULES), *(target["expr"] for _, target in TARGETS)]


@pytest.fixture(scope="module")
def labels(tmp_path_factory):
    """Return the labels of every metric, from records that have all of them."""
    folder = tmp_path_factory.mktemp("run")
    found = {"f2ed_certificate_expiry_timestamp_seconds": {"file"}}
    for sample in run_samples(watch_records(write_run(folder / "run.jsonl", GOOD, REJECTED))):
        found.setdefault(sample.name, set()).update(sample.labels)
    return found


@pytest.mark.parametrize("query", QUERIES)
def test_a_query_names_metrics_and_labels_that_exist(query, labels):
    names = re.findall(r"f2ed_\w+", query)
    assert names
    assert set(names) <= METRICS.keys()
    for name, given in re.findall(r"(f2ed_\w+)\{([^}]*)\}", query):
        assert set(re.findall(r"(\w+)=", given)) <= labels[name]
    for name in re.findall(r"increase\((f2ed_\w+)", query):
        assert METRICS[name].kind == "counter"
    assert query.count("(") == query.count(")")


def test_the_texts_use_labels_that_exist(labels):
    used = [(rule["expr"], text) for rule in RULES for text in rule["annotations"].values()]
    used += [
        (target["expr"], re.sub(r"{{(\w+)}}", r"{{ $labels.\1 }}", target["legendFormat"])) for _, target in TARGETS
    ]
    for query, text in used:
        known = set.union(*(labels[name] for name in re.findall(r"f2ed_\w+", query) if name in labels))
        assert set(re.findall(r"\$labels\.(\w+)", text)) <= known


def test_every_alert_is_explained_on_the_page_and_no_other():
    assert {rule["alert"] for rule in RULES} == set(re.findall(r"^\| `(F2ed\w+)` \|", PAGE, re.MULTILINE))
    assert {rule["labels"]["severity"] for rule in RULES} == {"page", "ticket"}


def test_every_metric_is_explained_on_the_page_and_no_other():
    explained = set(re.findall(r"`(f2ed_\w+)`", PAGE))
    assert explained == set(METRICS)


def test_panels_do_not_overlap_and_have_ids_of_their_own():
    taken = set()
    for panel in DASHBOARD["panels"]:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken
        assert place["x"] + place["w"] <= 24
        taken |= cells
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])
