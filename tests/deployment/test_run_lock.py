"""What a run notes beside its records, for those who watch it."""

import pytest

from f2ed.core.errors import BusyError, ConfigError
from f2ed.core.files import is_held
from f2ed.deployment.run_lock import read_state, sole_run


def test_others_read_the_round_and_what_is_waited_for(tmp_path):
    records = tmp_path / "run.jsonl"
    assert read_state(records) == (None, False)
    with sole_run([records], 7) as note:
        note(3, "0 of 2 shards can open")
        state, held = read_state(records)
        assert (state.run, state.round, state.waiting, held) == (7, 3, "0 of 2 shards can open", True)
        assert state.noted.endswith("+00:00")
        note(3)
        assert read_state(records)[0].waiting == ""
    assert read_state(records)[1] is False


def test_asking_does_not_keep_a_run_from_starting(tmp_path):
    with sole_run([tmp_path / "run.jsonl"], 1):
        pass
    assert not is_held(tmp_path / "run.jsonl.run")
    with (
        sole_run([tmp_path / "run.jsonl"], 2),
        pytest.raises(BusyError, match="the run 2 is using"),
        sole_run([tmp_path / "run.jsonl"], 3),
    ):
        pass


def test_a_lock_that_this_user_may_not_read_is_named(tmp_path, monkeypatch):
    def forbidden(*_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("os.open", forbidden)
    with pytest.raises(ConfigError, match="Permission denied; run this as its user"):
        is_held(tmp_path / "run.jsonl.run")
