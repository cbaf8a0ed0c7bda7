import os
import stat

import numpy as np
import pytest

from f2ed.core.errors import ConfigError
from f2ed.deployment.row_file import FileRows
from tests.protocol.helpers.federation import Federation, updates


def test_rows_come_back_and_only_their_owner_may_read_them(tmp_path):
    rows = FileRows(tmp_path / "rows", (3, 7), 5)
    rows.put(7, np.arange(5, dtype=np.uint64))
    assert rows.read(7, 0, 5).tolist() == [0, 1, 2, 3, 4]
    assert rows.read(7, 2, 4).tolist() == [2, 3]
    assert rows.read(3, 0, 5).tolist() == [0] * 5
    assert stat.S_IMODE(os.fstat(rows._file).st_mode) == 0o600
    assert not list(tmp_path.iterdir())
    rows.close()


def test_strangers_and_old_files_are_refused(tmp_path):
    rows = FileRows(tmp_path / "rows", (3,), 5)
    with pytest.raises(ConfigError, match="no room"):
        rows.put(4, np.zeros(5, np.uint64))
    (tmp_path / "rows").touch()
    with pytest.raises(FileExistsError):
        FileRows(tmp_path / "rows", (3,), 5)


def test_a_round_from_a_file_is_the_round_from_memory(tmp_path):
    numbers = updates(range(10), 50)
    memory, file = Federation(), Federation()
    true = file.task
    file.task = lambda terms: true(terms, rows=FileRows(tmp_path / "rows", terms.members, terms.coordinates))
    assert (memory.run(numbers).mean == file.run(numbers).mean).all()


def test_a_file_that_was_cut_is_noticed(tmp_path):
    rows = FileRows(tmp_path / "rows", (3,), 5)
    os.truncate(rows._file, 0)
    with pytest.raises(ConfigError, match="shorter than it was"):
        rows.read(3, 0, 5)
