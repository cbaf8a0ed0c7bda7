"""The records of a deployment: the same files as a simulation's, read by the same commands."""

import csv

import msgspec
import pytest
from flwr.app import MetricRecord

from f2ed import ConfigError, FilterL2
from f2ed.cli.export import export
from f2ed.cli.figures import figures
from f2ed.cli.report import report
from f2ed.records import read
from tests.flower.fake_grid import model, server, silence


def measured(number, _arrays):
    return MetricRecord({"accuracy": number / 10, "loss": 1.0 / (1 + number), "other": 5.0})


@pytest.fixture
def run(federation, tmp_path):
    """Return a function that leads a run with records, and with a checkpoint."""
    path = tmp_path / "run.jsonl"
    runs = iter(range(1, 99))

    def lead(rounds, **settings):
        grid, _, roster = federation(run_id=next(runs))
        given = {"records": path, "checkpoint": tmp_path / "model.checkpoint", "evaluate_fn": measured} | settings
        evaluate_fn = given.pop("evaluate_fn")
        leader = server(roster, **given)
        leader.start(grid, model(), num_rounds=rounds, evaluate_fn=evaluate_fn)
        return leader

    lead.path = path
    return lead


def test_a_run_leaves_a_header_and_a_line_for_each_round(run):
    leader = run(2, estimator=FilterL2(contamination=0.4), malicious=0)
    found = read(run.path)
    header = found.header
    assert (header.source, header.name, header.rounds, header.clients) == ("deployment", "clinics", 2, 6)
    assert (header.mode, header.crowd, header.dimension) == ("all-or-nothing", 3, 26)
    assert (header.estimator.kind, header.estimator.title) == ("filter-l2", FilterL2.title)
    assert (header.malicious, header.attack, header.samples, header.labels) == (None, None, None, None)
    assert header.shards == leader.roster.assignment(0).shards
    assert header.versions.keys() >= {"f2ed", "flwr", "numpy", "python"}
    assert found.rounds == tuple(leader.records)
    assert [each.round for each in found.rounds] == [0, 1]
    assert [(each.accuracy, each.loss) for each in found.rounds] == [(0.1, 0.5), (0.2, pytest.approx(1 / 3))]
    assert all(each.skipped is None and each.crowd == 3 and each.contaminated is None for each in found.rounds)
    assert all(sum(each.weights) == pytest.approx(1) and each.step > 0 for each in found.rounds)
    assert found.finished


def test_no_secret_is_in_the_records(run):
    leader = run(1)
    text = run.path.read_text()
    assert leader.roster.seed.hex() not in text
    assert "seed" not in msgspec.json.decode(text.splitlines()[0])["settings"]


def test_evaluations_that_are_not_finite_are_left_out(run):
    run(1, evaluate_fn=lambda *_: MetricRecord({"loss": float("nan"), "accuracy": 0.5}))
    assert [(each.accuracy, each.loss) for each in read(run.path).rounds] == [(0.5, None)]


def test_a_dropped_client_and_a_closed_shard_are_on_record_with_reasons(federation, tmp_path):
    grid, nodes, roster = federation()
    victim = roster.assignment(0).shards[0][0]
    nodes[victim].tamper = silence
    server(roster, records=tmp_path / "run.jsonl").start(grid, model(), num_rounds=1)
    (record,) = read(tmp_path / "run.jsonl").rounds
    assert list(record.excluded) == [0]
    assert record.dropped == {victim: "not connected"}


def test_a_restart_continues_the_records_and_repeats_no_round(run):
    run(2)
    run(4)
    found = read(run.path)
    assert [each.round for each in found.rounds] == [0, 1, 2, 3]
    assert found.header.rounds == 4
    assert found.torn is None


def test_a_round_that_a_crash_cut_off_before_its_record_is_written_after_the_restart(run):
    def crash(number, _):
        if number == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(3, evaluate_fn=crash)
    assert len(read(run.path).rounds) == 1
    run(3)
    rounds = read(run.path).rounds
    assert [each.round for each in rounds] == [0, 1, 2]
    assert rounds[1].accuracy == 0.2


def test_a_line_that_a_crash_cut_off_is_removed_and_its_round_written_whole(run):
    run(2)
    whole = run.path.read_bytes()
    run.path.write_bytes(whole[:-30])
    assert read(run.path).torn
    run(3)
    found = read(run.path)
    assert found.torn is None
    assert [each.round for each in found.rounds] == [0, 1, 2]


def test_records_that_reach_further_than_the_checkpoint_are_refused(run, tmp_path):
    run(2)
    with pytest.raises(ConfigError, match="holds 2 rounds, and this run continues after round 0"):
        run(2, checkpoint=tmp_path / "another.checkpoint")


def test_records_of_another_federation_are_refused(run):
    run(1)
    head, rest = run.path.read_bytes().split(b"\n", 1)
    run.path.write_bytes(head.replace(b'"name":"clinics"', b'"name":"banks"', 1) + b"\n" + rest)
    with pytest.raises(ConfigError, match="holds the records of 'banks'"):
        run(2)


@pytest.mark.parametrize("evaluate_fn", [measured, None])
def test_the_page_the_figures_and_the_exports_take_the_records(run, tmp_path, evaluate_fn):
    pytest.importorskip("jinja2")
    run(2, estimator=FilterL2(contamination=0.4), malicious=0, evaluate_fn=evaluate_fn)
    report(run.path, out=tmp_path / "page.html")
    assert "clinics" in (tmp_path / "page.html").read_text()
    export(run.path, to="csv", out=tmp_path / "run.csv")
    rows = list(csv.DictReader((tmp_path / "run.csv").read_text().splitlines()))
    assert [row["round"] for row in rows] == ["0", "1"]
    assert [row["accuracy"] for row in rows] == (["0.1", "0.2"] if evaluate_fn else ["", ""])
    if evaluate_fn:
        figures(run.path, out=tmp_path / "figures")
        assert list((tmp_path / "figures").iterdir())


def test_the_page_follows_a_run_live(run, tmp_path):
    pytest.importorskip("jinja2")
    from f2ed.report.follow import Folder

    folder, seen = Folder(tmp_path), []

    def look(number, _):
        if number:
            folder.look()
            runs, problems = folder.read()
            seen.append(([len(found.rounds) for found in runs], problems))

    run(3, evaluate_fn=look)
    look(1, None)
    assert [rounds for rounds, _ in seen] == [[0], [1], [2], [3]]
    assert not any(problems for _, problems in seen)
