"""The server's memory of survivors: on the disk before a sum can be opened, and an old copy of it shows."""

from collections import Counter

import pytest

from f2ed.core import files
from f2ed.core.errors import ConfigError, Refusal
from f2ed.deployment.server_guard import GuardFile
from f2ed.protocol.helpers import JUDGE, MIXER, ServerGuard
from f2ed.protocol.helpers.requests import AskMask, AskOpening
from tests.protocol.helpers.federation import Federation, updates

SIZE = 20
NOTHING = ServerGuard()


class Guarded(Federation):
    """A server whose memory is a file; what the test knows of survivors is not used."""

    def __init__(self, path, **changes):
        super().__init__(clients=8, coordinates=SIZE, crowd=4, sketch=96, tests=8, **changes)
        self.file = GuardFile(path)

    def task(self, terms, rows=None):
        guard = self.file.begin(terms, NOTHING)
        self.before, self.struck = guard.kept, guard.struck
        plain = super().task(terms, rows)
        return type(plain)(
            **{name: getattr(plain, name) for name in plain.__dataclass_fields__ if name != "remember"},
            remember=lambda kept, struck: self.file.remember(terms, kept, struck),
        )


def lead(it, round_=0, *, without=(), **named):
    numbers = {i: row for i, row in updates(it.ids, SIZE, seed=round_).items() if i not in without}
    return it.run(numbers, terms=it.terms(round_=round_), **named)


def test_a_server_that_was_started_again_knows_the_survivors(tmp_path):
    lead(Guarded(tmp_path / "x.guard"), without=(6, 7))
    it = Guarded(tmp_path / "x.guard")
    assert it.file.begin(it.terms(round_=1), NOTHING) == ServerGuard(0, (0, 1, 2, 3, 4, 5), ())


def test_a_server_that_was_started_again_refuses_what_it_would_have_refused(tmp_path):
    it = Guarded(tmp_path / "x.guard")
    assert lead(it, without=(6, 7)).mean is not None
    again = Guarded(tmp_path / "x.guard")
    # Helpers that collude with nobody would refuse, too; these have lost their memory.
    outcome = lead(again, 1)
    assert "client 6 is to be summed again in an epoch in which it was left out" in outcome.aborted


def test_an_epoch_begins_without_survivors_or_strikes(tmp_path):
    it = Guarded(tmp_path / "x.guard")
    lead(it, without=(6, 7))
    assert it.file.begin(it.terms(round_=10), ServerGuard(0, (0, 1, 2, 3), (5,))) == ServerGuard(1, None, ())


def test_a_round_is_begun_once(tmp_path):
    it = Guarded(tmp_path / "x.guard")
    lead(it, 3)
    with pytest.raises(Refusal, match="round 3 is not after round 3, which this server has begun"):
        it.file.begin(it.terms(round_=3), NOTHING)


def test_a_file_from_a_backup_is_found_out_until_the_next_epoch(tmp_path):
    it = Guarded(tmp_path / "x.guard")
    lead(it)
    backup = it.file.path.read_bytes()
    lead(it, 1)
    it.file.path.write_bytes(backup)
    with pytest.raises(Refusal, match=r"ends with round 0, and round 2 would follow: it is an old copy.*with round 10"):
        it.file.begin(it.terms(round_=2), NOTHING)
    assert it.file.begin(it.terms(round_=10), NOTHING).kept is None


def test_fixed_groups_need_no_memory_of_survivors_but_of_strikes(tmp_path):
    it = Guarded(tmp_path / "x.guard", groups=((0, 1, 2, 3), (4, 5, 6, 7)), step=0)
    it.file.begin(it.terms(), NOTHING)
    it.file.remember(it.terms(), (0, 1, 2, 3), (5,))
    assert it.file.begin(it.terms(round_=4), ServerGuard(0, (4, 5, 6, 7), (6,))) == ServerGuard(0, (0, 1, 2, 3), (5, 6))


def test_what_only_the_checkpoint_knows_counts(tmp_path):
    it = Guarded(tmp_path / "x.guard")
    known = ServerGuard(0, (0, 1, 2, 3), (5,))
    assert it.file.begin(it.terms(), known) == known
    assert it.file.begin(it.terms(round_=1), ServerGuard(0, (0, 1), (6,))) == ServerGuard(0, (0, 1), (5, 6))


def test_two_memories_that_exclude_each_other_are_refused(tmp_path):
    it = Guarded(tmp_path / "x.guard")
    it.file.begin(it.terms(), ServerGuard(0, (0, 1, 2, 3), ()))
    with pytest.raises(Refusal, match="know different ones of the same epoch"):
        it.file.begin(it.terms(round_=1), ServerGuard(0, (2, 3, 4, 5), ()))


def test_a_file_that_is_replaced_during_a_round_closes_its_sum(tmp_path):
    it = Guarded(tmp_path / "x.guard")

    def replaced(party, _request, reply):
        if party == JUDGE:
            it.file.path.unlink(missing_ok=True)
        return reply

    assert "was replaced while round 0 was under way" in lead(it, tamper=replaced).aborted


def test_a_damaged_file_is_refused(tmp_path):
    it = Guarded(tmp_path / "x.guard")
    it.file.path.write_bytes(b"{}")
    with pytest.raises(ConfigError, match=r"what the server remembers of survivors in .* cannot be read"):
        it.file.begin(it.terms(), NOTHING)


class KilledError(BaseException):
    """The process ends here."""


@pytest.mark.parametrize("done", [False, True])
@pytest.mark.parametrize("write", [1, 2])
def test_a_server_killed_at_a_write_has_opened_nothing_that_it_forgets(tmp_path, monkeypatch, write, done):
    """Before the first write no opening was asked for, before the second no mask; a later server knows all others."""
    it, count, true = Guarded(tmp_path / "x.guard"), Counter(), files.write_atomic

    def killing(path, data, **named):
        count["writes"] += path == it.file.path
        if done or count["writes"] != write:
            true(path, data, **named)
        if count["writes"] == write and path == it.file.path:
            raise KilledError

    monkeypatch.setattr(files, "write_atomic", killing)
    with pytest.raises(KilledError):
        lead(it, without=(6, 7))
    monkeypatch.setattr(files, "write_atomic", true)
    kinds = {type(it_).__name__ for it_ in map(_decoded, it.log)}
    assert (AskOpening.__name__ in kinds) == (write == 2)
    assert AskMask.__name__ not in kinds
    again = Guarded(tmp_path / "x.guard")
    known = again.file.begin(again.terms(round_=1), NOTHING)
    assert known.kept == ((0, 1, 2, 3, 4, 5) if (write, done) == (2, True) else None)


def _decoded(asked):
    party, request = asked
    if party not in (MIXER, JUDGE):
        return None
    from f2ed.protocol.helpers import judge, messages, mixer

    return messages.decode(tuple({**mixer.MACHINE, **judge.MACHINE}), request)
