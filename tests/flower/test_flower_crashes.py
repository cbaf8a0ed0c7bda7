"""A server killed (SIGKILL) at any write of its files continues with nothing lost and nothing twice."""

import os
import signal
import sys
from pathlib import Path

import numpy as np
import pytest

from f2ed.core import files
from f2ed.records import read
from tests.flower.fake_grid import FakeGrid, model, moved_by, server, vector

ROUNDS = 2
WRITES = 3 + 4 * ROUNDS
"""The two notes of the run and the header; in each round both notes, the checkpoint and the record."""

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="it forks")


def die():
    os.kill(os.getpid(), signal.SIGKILL)


def arm(folder, fatal, when):
    """Kill this process at a write of the server: before it, in its middle, or before the file gets its name."""
    write, seen = files._write_through, 0

    def wrapped(handle, data):
        nonlocal seen
        if str(Path(f"/proc/self/fd/{handle}").readlink()).startswith(str(folder)):
            seen += 1
            if seen == fatal:
                whole = data if isinstance(data, bytes) else b"".join(data)
                os.write(handle, whole[: {"before": 0, "half": len(whole) // 2, "unnamed": len(whole)}[when]])
                die()
        write(handle, data)

    files._write_through = wrapped


def in_a_child(work):
    """Do something in a process of its own; return the signal that ended it, or 0."""
    child = os.fork()
    if not child:
        try:
            work()
        except BaseException:  # noqa: BLE001  pytest must not see it here
            os._exit(1)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert not os.WIFEXITED(status) or os.WEXITSTATUS(status) == 0
    return os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0


def cases():
    """Return every write with every moment of it; each write has one moment that is tested with every change."""
    return [
        pytest.param(fatal, when, marks=[] if (fatal + number) % 3 == 0 else pytest.mark.nightly)
        for fatal in range(1, WRITES + 1)
        for number, when in enumerate(["before", "half", "unnamed"])
    ]


@pytest.mark.parametrize(("fatal", "when"), cases())
def test_a_server_killed_at_a_write_continues(federation, tmp_path, fatal, when):
    folder = tmp_path / "server"
    paths = {"checkpoint": folder / "run.checkpoint", "records": folder / "run.jsonl"}
    _, nodes, roster = federation()

    def lead(run_id):
        return server(roster, **paths).start(FakeGrid(nodes, run_id), model(), num_rounds=ROUNDS)

    def killed():
        arm(folder, fatal, when)
        lead(1)

    assert in_a_child(killed) == signal.SIGKILL
    result = lead(2)
    log = read(paths["records"])
    assert [each.round for each in log.rounds] == list(range(ROUNDS))
    assert log.torn is None
    assert [each.dropped for each in log.rounds] == [{}] * ROUNDS
    np.testing.assert_allclose(vector(result.arrays), moved_by([roster.assignment(0).shards] * ROUNDS), atol=8e-6)
    assert not list(folder.glob("*.new"))
