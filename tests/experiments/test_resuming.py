"""What was interrupted goes on as if nothing had happened; what is finished is not repeated."""

import gzip
import pickle
import signal
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from f2ed.core.errors import ConfigError
from f2ed.experiments import prepare, read, run_all, run_cell
from f2ed.experiments.file import parse
from f2ed.experiments.parallel import run_in_processes
from f2ed.experiments.runner import place
from f2ed.records import line
from f2ed.records import read as read_records
from tests.experiments.small_grid import SMALL

KILLED = Path(__file__).with_name("killed.py")


@pytest.fixture
def grid():
    cells, loaded = prepare(parse(SMALL, "small.toml"))
    return cells, loaded


def told(log):
    """What a log says, timings aside."""
    return [msgspec.structs.replace(record, seconds=type(record.seconds)()) for record in log.rounds]


def whole(grid, out):
    cells, loaded = grid
    *_, last = run_all(cells, out, loaded=loaded, workers=1)
    assert last.kind == "finished"
    return last.log


@pytest.mark.parametrize(
    ("stage", "fatal"), [("train", 0), ("sum", 1), ("record", 2), ("checkpoint", 1), ("rename", 2)]
)
def test_a_run_killed_in_the_middle_of_a_round_ends_with_the_same_records(grid, tmp_path, stage, fatal):
    file = tmp_path / "small.toml"
    file.write_text(SMALL)
    out = tmp_path / "out"
    done = subprocess.run([sys.executable, KILLED, file, out, stage, str(fatal)], check=False)
    assert done.returncode == -signal.SIGKILL
    cells, loaded = grid
    path = place(cells[0], out)
    assert len(read_records(path).rounds) == fatal + (stage in {"checkpoint", "rename"})
    assert (read_records(path).torn is not None) == (stage == "record")
    events = list(run_all(cells, out, loaded=loaded, workers=1))
    assert [event.kind for event in events] == ["began", *["round"] * (4 - fatal), "finished"]
    uninterrupted = whole(grid, tmp_path / "other")
    assert told(events[-1].log) == told(uninterrupted)
    assert told(read_records(path)) == told(uninterrupted)
    assert read_records(path).torn is None
    assert sorted(out.iterdir()) == [path, path.with_suffix(".lock")]


def test_a_run_killed_in_its_first_round_begins_anew(grid, tmp_path):
    cells, loaded = grid
    running = run_cell(cells[0], tmp_path, data=loaded[cells[0].experiment.data], workers=1)
    assert next(running)[0] == "began"
    running.close()
    assert len(whole(grid, tmp_path).rounds) == 4


def test_a_run_stopped_after_every_round_ends_with_the_same_records(grid, tmp_path):
    cells, loaded = grid
    data = loaded[cells[0].experiment.data]
    for _ in range(3):
        running = run_cell(cells[0], tmp_path / "a", data=data, workers=1)
        assert [next(running)[0], next(running)[0]] == ["began", "round"]
        running.close()
    log = whole(grid, tmp_path / "a")
    assert [record.round for record in log.rounds] == [0, 1, 2, 3]
    assert told(log) == told(whole(grid, tmp_path / "b"))


def test_a_finished_run_is_not_repeated(grid, tmp_path):
    cells, loaded = grid
    first = whole(grid, tmp_path)
    before = place(cells[0], tmp_path).read_bytes()
    assert [event.kind for event in run_all(cells, tmp_path, loaded=loaded)] == ["skipped"]
    assert place(cells[0], tmp_path).read_bytes() == before
    assert read_records(place(cells[0], tmp_path)).rounds == first.rounds


def test_a_finished_run_leaves_its_records_alone(grid, tmp_path):
    cells, _ = grid
    whole(grid, tmp_path)
    path = place(cells[0], tmp_path)
    assert sorted(tmp_path.iterdir()) == [path, path.with_suffix(".lock")]


def test_other_settings_are_another_run(tmp_path):
    one = prepare(parse(SMALL, "small.toml"))
    other = prepare(parse(SMALL.replace("lr = 0.1", "lr = 0.2"), "small.toml"))
    assert place(one[0][0], tmp_path) != place(other[0][0], tmp_path)


def test_a_run_begun_on_another_device_is_refused(grid, tmp_path):
    cells, loaded = grid
    running = run_cell(cells[0], tmp_path, data=loaded[cells[0].experiment.data], workers=1)
    next(running), next(running)
    running.close()
    path = place(cells[0], tmp_path)
    log = read_records(path)
    elsewhere = msgspec.structs.replace(log.header, device="another")
    path.write_bytes(line(elsewhere) + b"".join(map(line, log.rounds)))
    with pytest.raises(ConfigError, match="started on another"):
        list(run_all(cells, tmp_path, loaded=loaded))


def test_a_checkpoint_without_its_records_is_refused(grid, tmp_path):
    cells, loaded = grid
    running = run_cell(cells[0], tmp_path, data=loaded[cells[0].experiment.data], workers=1)
    next(running), next(running)
    running.close()
    path = place(cells[0], tmp_path)
    path.write_bytes(line(read_records(path).header))
    with pytest.raises(ConfigError, match="lacks rounds"):
        list(run_all(cells, tmp_path, loaded=loaded))


def test_two_processes_do_not_run_the_same(grid, tmp_path, monkeypatch):
    monkeypatch.setattr("f2ed.experiments.runner.LOCK_SECONDS", 0.0)
    cells, loaded = grid
    data = loaded[cells[0].experiment.data]
    first = run_cell(cells[0], tmp_path, data=data, workers=1)
    next(first)
    with pytest.raises(ConfigError, match="another process"):
        next(run_cell(cells[0], tmp_path, data=data, workers=1))
    first.close()


def test_runs_in_processes_end_like_runs_in_this_one(tmp_path):
    file = parse(SMALL.replace('"trimmed-mean-attack"', '["trimmed-mean-attack", "none"]'), "small.toml")
    cells, loaded = prepare(file)
    events = list(run_in_processes(cells, tmp_path / "a", jobs=2))
    assert sorted(event.cell for event in events if event.kind == "finished") == [0, 1]
    list(run_all(cells, tmp_path / "b", loaded=loaded, workers=1))
    for cell in cells:
        assert told(read_records(place(cell, tmp_path / "a"))) == told(read_records(place(cell, tmp_path / "b")))


def test_more_runs_than_a_pipe_holds_are_handed_out(grid, tmp_path):
    cells, _ = grid
    whole(grid, tmp_path)
    many = [*cells] * (2 * (1 << 16) // len(pickle.dumps(cells[0])))
    events = list(run_in_processes(many, tmp_path, jobs=1))
    assert [event.kind for event in events] == ["skipped"] * len(many)


def test_what_goes_wrong_in_a_process_is_said_here(tmp_path):
    cells, _ = prepare(parse(SMALL, "small.toml"))
    (tmp_path / "out").mkdir()
    place(cells[0], tmp_path / "out").write_text("no record\n")
    with pytest.raises(ConfigError, match="line 1 is not a record"):
        list(run_in_processes(cells, tmp_path / "out", jobs=1))


def test_the_file_may_be_read_from_disk(tmp_path):
    (tmp_path / "small.toml").write_text(SMALL)
    assert read(tmp_path / "small.toml").title == "Small"
    with pytest.raises(ConfigError, match="cannot be read"):
        read(tmp_path / "gone.toml")


def test_what_is_finished_may_be_compressed_or_have_another_name(grid, tmp_path):
    log = whole(grid, tmp_path)
    (cell,), loaded = grid
    path = place(cell, tmp_path)
    packed = path.with_name(f"another-{path.name.rpartition('-')[2]}.gz")
    packed.write_bytes(gzip.compress(path.read_bytes()))
    path.unlink()
    (event,) = run_all([cell], tmp_path, loaded=loaded)
    assert (event.kind, told(event.log)) == ("skipped", told(log))


def test_a_compressed_file_that_is_not_finished_is_refused(grid, tmp_path):
    log = whole(grid, tmp_path)
    (cell,), loaded = grid
    path = place(cell, tmp_path)
    path.with_name(f"{path.name}.gz").write_bytes(gzip.compress(line(log.header)))
    path.unlink()
    with pytest.raises(ConfigError, match="compressed but not finished; decompress it"):
        list(run_all([cell], tmp_path, loaded=loaded))
