"""Broken records: what is wrong is named, and nothing else is lost."""

import gzip
import json
import math

import pytest

from f2ed.core.errors import ConfigError
from f2ed.records import line
from f2ed.records.intake import Intake
from f2ed.records.reader import read_runs
from tests.report.report_runs import demo, header, record, save


def read_one(path):
    (run,), problems = read_runs([path])
    return run, problems


def edited(path, number, change):
    """Change one line of a file through its JSON."""
    lines = path.read_bytes().splitlines(keepends=True)
    found = json.loads(lines[number])
    change(found)
    lines[number] = json.dumps(found).encode() + b"\n"
    path.write_bytes(b"".join(lines))


def test_a_whole_file_has_no_problems(tmp_path):
    run, problems = read_one(save(tmp_path, header()))
    assert problems == []
    assert [each.round for each in run.rounds] == list(range(12))
    assert run.finished


def test_a_last_line_that_was_cut_off_is_named_and_the_rest_is_there(tmp_path):
    path = save(tmp_path, header())
    path.write_bytes(path.read_bytes()[:-30])
    run, (problem,) = read_one(path)
    assert len(run.rounds) == 11
    assert not run.finished
    assert (problem.file, problem.line) == (path.name, 13)
    assert "cut off" in problem.text


def test_a_line_cut_off_in_the_middle_of_a_file_costs_that_line_alone(tmp_path):
    path = save(tmp_path, header())
    lines = path.read_bytes().splitlines(keepends=True)
    lines[5] = lines[5][:40] + b"\n"
    path.write_bytes(b"".join(lines))
    run, (problem,) = read_one(path)
    assert [each.round for each in run.rounds] == [0, 1, 2, 3, 5, 6, 7, 8, 9, 10, 11]
    assert problem.line == 6
    assert problem.level == "broken"


@pytest.mark.parametrize("value", ["NaN", "null", "Infinity"])
def test_an_accuracy_that_is_no_number_leaves_a_gap(tmp_path, value):
    path = save(tmp_path, header())
    lines = path.read_text().splitlines()
    accuracy = json.loads(lines[4])["accuracy"]
    lines[4] = lines[4].replace(f'"accuracy":{accuracy}', f'"accuracy":{value}')
    path.write_text("\n".join(lines) + "\n")
    run, (problem,) = read_one(path)
    assert len(run.rounds) == 12
    assert not math.isfinite(run.rounds[3].accuracy or math.nan)
    assert "round 3: the accuracy is not a number" in problem.text


def test_an_older_header_is_shown_without_what_it_does_not_have(tmp_path):
    path = save(tmp_path, header())
    edited(path, 0, lambda found: [found.pop(key) for key in ("clients", "crowd", "mode", "guarantee")])
    run, problems = read_one(path)
    assert len(run.rounds) == 12
    assert run.header.mode == "unknown"
    assert run.header.seed == 0
    named = " ".join(problem.text for problem in problems)
    assert all(f"has no {key}" in named for key in ("clients", "crowd", "mode", "guarantee"))


def test_an_unknown_key_is_named_once_and_passed_over(tmp_path):
    path = save(tmp_path, header())
    for number in (2, 3, 4):
        edited(path, number, lambda found: found.update(temperature=37))
    run, (problem,) = read_one(path)
    assert len(run.rounds) == 12
    assert (problem.line, problem.level) == (3, "note")
    assert "temperature" in problem.text


def test_a_field_of_a_wrong_type_costs_that_field_alone(tmp_path):
    path = save(tmp_path, header())
    edited(path, 2, lambda found: found.update(weights="many"))
    run, (problem,) = read_one(path)
    assert run.rounds[1].weights is None
    assert "weights" in problem.text


def test_a_round_without_its_number_is_not_used(tmp_path):
    path = save(tmp_path, header())
    edited(path, 2, lambda found: found.pop("round"))
    run, (problem,) = read_one(path)
    assert len(run.rounds) == 11
    assert "has no round" in problem.text


def test_a_kind_of_line_from_a_newer_version_is_passed_over(tmp_path):
    path = save(tmp_path, header())
    path.write_bytes(path.read_bytes() + b'{"record":"weather"}\n')
    run, (problem,) = read_one(path)
    assert run.finished
    assert "weather" in problem.text


@pytest.mark.parametrize("content", [b"", b"\x00\xff\n", b"[1]\n", b"hello\n", b'{"record":"round","round":1}\n'])
def test_a_file_without_a_header_is_named_and_the_other_runs_are_there(tmp_path, content):
    save(tmp_path, header(), name="good")
    (tmp_path / "bad.jsonl").write_bytes(content)
    runs, problems = read_runs([tmp_path])
    assert [run.file for run in runs] == ["good.jsonl"]
    assert {problem.file for problem in problems} == {"bad.jsonl"}


def test_a_header_of_another_run_begins_another_run_as_in_archives(tmp_path):
    path = save(tmp_path, header())
    path.write_bytes(path.read_bytes() + line(header(seed=5)))
    runs, problems = read_runs([path])
    assert [(run.file, run.header.seed, len(run.rounds)) for run in runs] == [
        (path.name, 0, 12),
        (f"{path.name}#2", 5, 0),
    ]
    assert problems == []


def test_rounds_written_again_by_a_run_that_was_taken_up_count_once(tmp_path):
    head = header()
    path = save(tmp_path, head, rounds=8)
    again = [record(head, number, accuracy=0.5) for number in range(5, 9)]
    path.write_bytes(path.read_bytes() + b"".join(map(line, again)))
    run, _ = read_one(path)
    assert [each.round for each in run.rounds] == list(range(9))
    assert [each.accuracy for each in run.rounds[5:]] == [0.5] * 4
    assert run.seen == 9


def test_a_file_that_is_nothing_but_broken_lines_is_not_listed_line_by_line(tmp_path):
    path = save(tmp_path, header(), rounds=0)
    path.write_bytes(path.read_bytes() + b"{broken\n" * 1000)
    _, problems = read_one(path)
    assert len(problems) == 13
    assert "988 more" in problems[-1].text


def test_a_long_run_is_thinned_to_a_bounded_number_of_rounds_with_the_last_one():
    head = header(rounds=5000)
    intake = Intake("long", shown=50)
    intake.feed(line(head))
    for number in range(4999):
        intake.feed(line(record(head, number, weights=None)))
    (run,) = intake.runs()
    assert len(intake._runs[0]._rounds) <= 100
    assert run.seen == 4999
    assert run.rounds[-1].round == 4998
    assert all(each.round % run.every == 0 for each in run.rounds[:-1])
    assert 50 <= len(run.rounds) <= 101


def test_a_line_may_come_in_pieces():
    head = header()
    content = b"".join(map(line, [head, record(head, 0), record(head, 1)]))
    intake = Intake("slow")
    for at in range(0, len(content), 7):
        intake.feed(content[at : at + 7])
    assert len(intake.runs()[0].rounds) == 2
    assert intake.problems() == []


def test_files_that_are_not_there_are_refused_by_name(tmp_path):
    with pytest.raises(ConfigError, match="nowhere does not exist"):
        read_runs([tmp_path / "nowhere"])
    with pytest.raises(ConfigError, match="no records"):
        read_runs([tmp_path])


def test_folders_are_searched_to_the_bottom(tmp_path):
    demo(tmp_path / "a" / "b", estimators=("mean",), attacks=("none",))
    runs, _ = read_runs([tmp_path])
    assert [run.file for run in runs] == ["a/b/demo-none-mean-0.jsonl"]


def test_an_older_round_that_does_not_say_its_crowd_has_the_run_s(tmp_path):
    path = save(tmp_path, header())
    for number in range(1, 13):
        edited(path, number, lambda found: found.pop("crowd"))
    edited(path, 0, lambda found: found.update(format=1, hidden_among=4))
    run, problems = read_one(path)
    assert run.crowd == 4
    assert problems == []


def test_compressed_files_are_read_like_the_others_and_damaged_ones_named(tmp_path):
    plain = save(tmp_path, header(), 2)
    packed = gzip.compress(plain.read_bytes())
    plain.unlink()
    (tmp_path / "whole.jsonl.gz").write_bytes(packed)
    (tmp_path / "damaged.jsonl.gz").write_bytes(packed[:-9])
    (run,), (problem,) = read_runs([tmp_path])
    assert (run.file, len(run.rounds)) == ("whole.jsonl.gz", 2)
    assert (problem.file, problem.text) == (
        "damaged.jsonl.gz",
        "cannot be read: not a compressed file, or only the beginning of one",
    )
