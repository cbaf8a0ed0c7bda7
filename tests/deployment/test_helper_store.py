"""Helpers whose processes end at any step: rounds go on, and no step is answered in two ways."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from f2ed.core.errors import ConfigError
from f2ed.core.files import is_held
from f2ed.deployment import helper_store
from f2ed.deployment.helper_store import HelperStore
from f2ed.protocol.helpers import JUDGE, MIXER
from f2ed.protocol.helpers import messages as m
from tests.protocol.helpers.federation import Federation, updates

SIZE = 30
ROOT = Path(__file__).parents[2]


def small():
    return Federation(clients=6, coordinates=SIZE, crowd=4, sketch=96, tests=8)


def with_stores(folder, it):
    stores = {role: HelperStore(folder, it.helper(role)) for role in (MIXER, JUDGE)}
    it.helper_reply = lambda role, request, _: stores[role].answer(request, os.urandom)
    return stores


def test_a_round_from_files(tmp_path):
    it = small()
    stores = with_stores(tmp_path, it)
    for store in stores.values():
        store.begin()
    assert it.run(updates(it.ids, SIZE)).mean is not None
    assert stat.S_IMODE(stores[MIXER].path.stat().st_mode) == 0o600


def test_a_helper_that_starts_anew_at_every_step_goes_on(tmp_path):
    it = small()
    for store in with_stores(tmp_path, it).values():
        store.begin()
    it.helper_reply = lambda role, request, _: HelperStore(tmp_path, it.helper(role)).answer(request, os.urandom)
    assert it.run(updates(it.ids, SIZE)).mean is not None


def test_a_lost_file_is_not_made_again(tmp_path):
    it = small()
    stores = with_stores(tmp_path, it)
    for store in stores.values():
        store.begin()
    numbers = updates(it.ids, SIZE)
    it.run(numbers)
    stores[MIXER].path.unlink()
    assert "it was lost" in it.run(numbers, terms=it.terms(round_=1)).aborted
    assert not stores[MIXER].path.exists()
    with pytest.raises(ConfigError, match="has taken up the job already"):
        stores[JUDGE].begin()


@pytest.mark.parametrize("role", [MIXER, JUDGE])
def test_a_file_from_a_backup_is_found_out(tmp_path, role):
    it = small()
    stores = with_stores(tmp_path, it)
    for store in stores.values():
        store.begin()
    numbers = updates(it.ids, SIZE)
    it.run(numbers)
    backup = stores[role].path.read_bytes()
    it.run(numbers, terms=it.terms(round_=1))
    stores[role].path.write_bytes(backup)
    assert "the state is an old copy" in it.run(numbers, terms=it.terms(round_=2)).aborted


KILLED = """
import os, signal, sys
from pathlib import Path
from f2ed.core import files
from f2ed.deployment.helper_store import HelperStore
from tests.protocol.helpers.federation import Federation
it = Federation(clients=6, coordinates=30, crowd=4, sketch=96, tests=8)
store = HelperStore(Path(sys.argv[1]), it.helper(sys.argv[2]))
if sys.argv[3] == "before":
    files.write_atomic = lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL)
store.answer(sys.stdin.buffer.read(), os.urandom)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize(("role", "step"), [(MIXER, 7), (JUDGE, 5)])
def test_a_helper_killed_around_its_last_write_answers_once(tmp_path, role, step, when):
    """Before the state is on the disk nothing left; afterwards the same reply is given again."""
    it, count = small(), []
    stores = with_stores(tmp_path, it)
    for store in stores.values():
        store.begin()
    plain = it.helper_reply

    def killed_once(party, request, terms):
        if party == role:
            count.append(party)
            if len(count) - 1 == step:
                done = subprocess.run(
                    [sys.executable, "-c", KILLED, str(tmp_path), role, when],
                    input=request,
                    cwd=ROOT,
                    env=os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])},
                    check=False,
                )
                assert done.returncode == -9
        return plain(party, request, terms)

    it.helper_reply = killed_once
    outcome = it.run(updates(it.ids, SIZE))
    assert outcome.mean is not None, outcome.aborted


def test_a_request_is_answered_under_the_lock_of_its_state(tmp_path, monkeypatch):
    it, held = small(), []
    store = with_stores(tmp_path, it)[MIXER]
    store.begin()
    true = helper_store.respond_as_mixer

    def look(*given, **named):
        held.append(is_held(store.path))
        return true(*given, **named)

    monkeypatch.setattr(helper_store, "respond_as_mixer", look)
    assert "cannot be read" in m.decode((m.Refused,), store.answer(b"garbage", os.urandom)).reason
    assert held == [True]
