"""Prometheus metrics from the records of a deployment, while they grow."""

import re
import urllib.error
import urllib.request
from datetime import UTC, datetime

import msgspec
import pytest

from f2ed.cli import metrics as command
from f2ed.cli.metrics import metrics
from f2ed.core.errors import ConfigError
from f2ed.deployment.certs import server_certificate
from f2ed.deployment.exporter import serve_metrics
from f2ed.deployment.metrics import METRICS, Sample, exposition, run_samples, watch_records
from f2ed.deployment.run_lock import sole_run
from f2ed.records import line
from tests.deployment.deployed_run import CLOSED, GOOD, HEADER, REJECTED, write_run

LINE = re.compile(r'^(\w+)(?:\{((?:\w+="(?:[^"\\]|\\.)*",?)*)\})? (NaN|[+-]Inf|-?[\d.e+-]+)$')


@pytest.fixture
def run(tmp_path):
    return write_run(tmp_path / "run.jsonl", GOOD, REJECTED)


def values(path):
    """Return the value of each series, by its name and the labels that are its own."""
    found = {}
    for line_ in exposition(run_samples(watch_records(path))).splitlines():
        if not line_.startswith("#"):
            name, labels, value = LINE.fullmatch(line_).groups()
            own = [each for each in re.findall(r'\w+="[^"]*"', labels) if not re.match("federation|records", each)]
            found[name, *own] = float(value)
    return found


def test_every_metric_is_described_and_named_as_prometheus_wants_it(run):
    for name, metric in METRICS.items():
        assert re.fullmatch(r"f2ed_[a-z_]+[a-z]", name)
        assert name.endswith("_total") == (metric.kind == "counter")
        assert metric.meaning.endswith(".")
    text = exposition(run_samples(watch_records(run)))
    assert all(line_.startswith("# ") or LINE.fullmatch(line_) for line_ in text.splitlines())
    for name in set(re.findall(r"^(\w+)", text, re.MULTILINE)):
        assert text.count(f"# TYPE {name} ") == text.count(f"# HELP {name} ") == 1


def test_counters_add_up_the_rounds_and_gauges_show_the_last(run):
    found = values(run)
    assert found["f2ed_rounds_total",] == 2
    assert found["f2ed_rounds_skipped_total",] == 1
    assert found["f2ed_clipped_coordinates_total",] == 6
    assert (found["f2ed_sent_bytes_total",], found["f2ed_received_bytes_total",]) == (200, 400)
    assert found["f2ed_round_seconds_total", 'stage="exchange"'] == 3
    assert found["f2ed_round_seconds", 'stage="exchange"'] == 1.5
    assert found["f2ed_shard_rejected_total", 'shard="1"'] == 1
    assert found["f2ed_shard_rejected_total", 'shard="0"'] == 0
    assert found["f2ed_client_dropped_total", 'client="0"', 'name="alpha"'] == 0
    assert (found["f2ed_crowd",], found["f2ed_crowd_minimum",], found["f2ed_exposed_clients",]) == (2, 2, 0)
    assert (found["f2ed_clients_quarantined",], found["f2ed_clients_dropped",]) == (1, 1)
    assert found["f2ed_guarantee", 'region="nothing"'] == 1
    assert found["f2ed_guarantee", 'region="theorem"'] == 0
    assert found["f2ed_dp_epsilon",] == 2.5
    assert found["f2ed_accuracy",] == 0.75
    assert [each for each in found if each[0] == "f2ed_measured"] == [("f2ed_measured", 'metric="loss"')]
    assert found["f2ed_last_round_timestamp_seconds",] == datetime(2026, 1, 2, 3, 6, 5, tzinfo=UTC).timestamp()
    assert (found["f2ed_running",], found["f2ed_finished",], found["f2ed_waiting",]) == (0, 0, 0)


def test_attempts_at_the_round_under_way_are_counted_once(run):
    with sole_run([run], 5) as note:
        note(3, skipped=2)
        note(3, "2 of 5 shards")
        assert values(run)["f2ed_rounds_skipped_total",] == 1 + 2
        note(2, skipped=2)
        assert values(run)["f2ed_rounds_skipped_total",] == 1, "the record of a finished round has its attempts"
        note(3)
        assert values(run)["f2ed_rounds_skipped_total",] == 1


def test_names_are_escaped(run):
    assert r'name="be\"ta"' in exposition(run_samples(watch_records(run)))
    assert exposition([Sample("f2ed_loss", float("inf"))]).splitlines()[-1] == "f2ed_loss +Inf"
    assert exposition([Sample("f2ed_info", 1, {"a": "x\\y\nz"})]).splitlines()[-1] == r'f2ed_info{a="x\\y\nz"} 1'


def test_a_closed_shard_is_not_counted_as_rejected(tmp_path):
    found = values(write_run(tmp_path / "run.jsonl", CLOSED))
    assert found["f2ed_shard_closed_total", 'shard="1"'] == 1
    assert found["f2ed_shard_rejected_total", 'shard="1"'] == 0
    assert found["f2ed_shards_opened",] == 1


def test_the_file_is_followed_while_it_grows_and_a_torn_line_is_not_counted(run):
    assert values(run)["f2ed_rounds_total",] == 2
    whole = line(msgspec.structs.replace(CLOSED, round=2))
    with run.open("ab") as file:
        file.write(whole[:40])
        file.flush()
        assert values(run)["f2ed_rounds_total",] == 2
        file.write(whole[40:])
    assert (values(run)["f2ed_rounds_total",], values(run)["f2ed_finished",]) == (3, 1)


def test_a_run_that_has_just_begun_has_metrics_without_a_round(tmp_path):
    found = values(write_run(tmp_path / "run.jsonl"))
    assert found["f2ed_rounds_total",] == 0
    assert found["f2ed_last_round_timestamp_seconds",] == found["f2ed_started_timestamp_seconds",]
    assert ("f2ed_crowd",) not in found


def test_a_run_that_waits_says_so_until_it_ends(run):
    with sole_run([run], 5) as note:
        note(3, "0 of 2 shards can open")
        found = values(run)
        assert (found["f2ed_running",], found["f2ed_waiting",]) == (1, 1)
        assert found["f2ed_noted_timestamp_seconds",] > found["f2ed_last_round_timestamp_seconds",]
        note(3)
        assert values(run)["f2ed_waiting",] == 0
    assert values(run)["f2ed_running",] == 0


def test_a_simulation_has_none(tmp_path):
    path = tmp_path / "run.jsonl"
    path.write_bytes(line(msgspec.structs.replace(HEADER, source="simulation")))
    with pytest.raises(ConfigError, match="records of a simulation"):
        watch_records(path)


def test_the_command_prints_or_writes_a_file_that_others_may_read(run, tmp_path, capsys):
    tls = server_certificate(tmp_path / "certs", ["localhost"])
    metrics(run, certificate=(tls.certificate,))
    printed = capsys.readouterr().out
    assert 'f2ed_certificate_expiry_timestamp_seconds{file="server.pem"}' in printed
    metrics(run, tmp_path / "later.jsonl", certificate=(tls.certificate,), out=tmp_path / "f2ed.prom")
    assert (tmp_path / "f2ed.prom").read_text() == printed
    assert (tmp_path / "f2ed.prom").stat().st_mode & 0o777 == 0o644


def test_the_file_is_written_again_and_again(run, tmp_path, monkeypatch):
    class Stop(Exception):
        pass

    def sleep(seconds):
        if (tmp_path / "second").exists():
            raise Stop
        assert seconds == 15
        (tmp_path / "second").touch()
        with run.open("ab") as file:
            file.write(line(CLOSED))

    monkeypatch.setattr(command.time, "sleep", sleep)
    with pytest.raises(Stop):
        metrics(run, out=tmp_path / "f2ed.prom", every=15)
    assert re.search(r"^f2ed_rounds_total\{.*\} 3$", (tmp_path / "f2ed.prom").read_text(), re.MULTILINE)


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ({}, "no records given"),
        ({"records": ["run.jsonl"], "out": "x.prom", "port": 0}, "choose one of them"),
        ({"records": ["run.jsonl"], "every": 5}, "it takes --out"),
        ({"records": ["nothing.jsonl"]}, "cannot be read"),
        ({"records": ["run.jsonl"], "out": "missing/f2ed.prom"}, "cannot be written"),
        ({"certificate": ["run.jsonl"]}, "is not a certificate"),
        ({"certificate": ["nothing.pem"]}, "cannot be read"),
        ({"records": ["run.jsonl"], "port": 99999}, "invalid port"),
    ],
)
def test_what_cannot_work_is_refused(run, words, why):
    folder = run.parent
    records = [folder / each for each in words.pop("records", [])]
    if "certificate" in words:
        words["certificate"] = [folder / each for each in words["certificate"]]
    if "out" in words:
        words["out"] = folder / words["out"]
    with pytest.raises(ConfigError, match=why):
        metrics(*records, **words)


def test_the_endpoint_serves_metrics_and_health(run, monkeypatch, capsys):
    answers = []

    def ask(path):
        try:
            with urllib.request.urlopen(path, timeout=5) as answer:  # noqa: S310  loopback
                return answer.status, answer.headers["Content-Type"], answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.headers["Content-Type"], error.read().decode()

    def interrupted():
        address = re.search(r"http://[\d.:]+", capsys.readouterr().out)[0]
        answers.extend(ask(f"{address}/{path}") for path in ("metrics", "health", "other"))
        with sole_run([run], 5):
            answers.append(ask(f"{address}/health"))

    monkeypatch.setattr(command, "_until_interrupted", interrupted)
    metrics(run, port=0)
    assert answers[0][:2] == (200, "text/plain; version=0.0.4; charset=utf-8")
    assert "f2ed_rounds_total" in answers[0][2]
    assert answers[1][0] == 503
    assert "it ended after 2 of 3 rounds" in answers[1][2]
    assert answers[2][0] == 404
    assert answers[3] == (200, answers[0][1], "ok run: in round 0, after 2 of 3 rounds\n")


def test_a_port_in_use_is_named():
    with (
        serve_metrics(str, str, host="127.0.0.1", port=0) as address,
        pytest.raises(ConfigError, match="is in use by another program"),
        serve_metrics(str, str, host="127.0.0.1", port=int(address.rpartition(":")[2])),
    ):
        pass
