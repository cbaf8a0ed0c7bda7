"""The logs of mixer and judge: what they hold, what a crash leaves, and which differences are found by comparing."""

import os
from contextlib import suppress

import msgspec
import pytest
from msgspec.structs import replace

from f2ed.core.errors import ConfigError, PeerError
from f2ed.core.files import write_atomic
from f2ed.deployment.transparency import (
    Authors,
    Heads,
    LogFile,
    compare_logs,
    read_line,
    store,
    verify_logs,
    write_line,
)
from f2ed.deployment.transparency import lines as log
from f2ed.protocol.helpers.helper_state import HelperState
from f2ed.protocol.helpers.messages import Refused, decode
from tests.deployment import test_roster_helpers as roster_of
from tests.deployment.logs import CTX, INPUT, began, closed, kinds, texts
from tests.deployment.test_helper_agent import KEYS, SIZE, Helped
from tests.protocol.helpers.federation import updates

ROLES = ("mixer", "judge")
PLACE = {"round": 0, "shard": 0, "ctx": CTX}
BEGAN = began(terms=b"t" * 32)
STEPS = {
    "mixer": ["began", "keys", "voted", "set", "gave", "gave", "decided"],
    "judge": ["began", "keys", "voted", "set", "gave", "decided"],
}


class Logged(Helped):
    """Helpers whose logs are compared."""

    def start(self):
        for agent in self.agents.values():
            agent.start(first=True)
        return self

    def log_of(self, role):
        return self.folder / role / f"{self.roster.lineage}.log"

    def lines(self, role):
        return [read_line(text) for text in self.log_of(role).read_bytes().splitlines()]

    def events(self, role):
        return [msgspec.to_builtins(line.data)["event"] for line in self.lines(role)]

    def verify(self, *roles):
        return verify_logs([self.log_of(role) for role in roles or ROLES], Authors.of([self.roster]))

    def compare(self, *more):
        return compare_logs([*map(self.log_of, ROLES), *more], Authors.of([self.roster]))

    def write(self, party, *events):
        """Write a log with these events; return its file."""
        authors = {"server": (log.SERVER, roster_of.SERVER), "client": (1, bytes([2]) * 32)}
        by, key = authors.get(party, (log.HELPERS.get(party), KEYS.get(party)))
        path = self.folder / f"{party}.log"
        LogFile(path, by, key, self.roster.lineage, self.roster.digest, self.roster.serial).append(*events)
        return path

    def compare_written(self, **parties):
        """Compare logs that hold these events."""
        paths = [self.write(party, *events) for party, events in parties.items()]
        return compare_logs(paths, Authors.of([self.roster]))


@pytest.fixture
def logged(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "fsync", lambda _: None)
    return Logged(tmp_path).start()


def test_helpers_write_what_they_did_and_agree(logged):
    assert logged.run(0).mean is not None
    assert logged.run(1, run=2).mean is not None
    for role in ROLES:
        assert logged.events(role) == ["boot", "pinned", *2 * STEPS[role]]
    assert not logged.compare().findings


def test_the_lines_name_whom_they_took_kept_and_struck(logged):
    loud = updates(logged.roster.keys, SIZE)
    for client in (4, 5, 6):
        loud[client] = loud[client] * 0 + 2**40
    outcome = logged.run(0, numbers=loud)
    for role in ROLES:
        data = {type(line.data): line.data for line in logged.lines(role)}
        assert data[log.SetSigned].clients == outcome.clients
        assert data[log.Decided].survivors == outcome.kept
        assert data[log.Decided].struck == outcome.struck == (4, 5, 6)
        assert data[log.Voted].accused == {}
    again = logged.run(1)
    assert "it has a strike in this epoch" in again.aborted
    assert "it has a strike in this epoch" in logged.lines("mixer")[-1].data.reason


def test_strikes_without_a_sum_are_logged(logged):
    loud = updates(logged.roster.keys, SIZE)
    for client in loud:
        loud[client] = loud[client] * 0 + 2**40
    outcome = logged.run(0, numbers=loud)
    assert outcome.mean is None
    for role in ROLES:
        (found,) = (line.data for line in logged.lines(role) if isinstance(line.data, log.Decided))
        assert (found.survivors, found.struck) == ((), tuple(logged.roster.keys))
    assert not logged.compare().findings


def test_an_update_is_in_no_line(logged):
    """The digest of the Gram matrix covers its masked row: equal updates give another digest every time."""
    numbers = updates(logged.roster.keys, SIZE)
    opened = []
    for round_ in range(2):
        logged.run(round_, numbers=numbers)
        opened += [line.data.opened for line in logged.lines("judge") if isinstance(line.data, log.Gave)]
    assert len(opened[0]) == 32
    assert opened[0] != opened[-1]
    assert all(line.data.opened == b"" for line in logged.lines("mixer") if isinstance(line.data, log.Gave))


def test_what_is_refused_is_logged_with_its_reason(logged):
    logged.run(0)
    logged.agents["mixer"].answer(1, b"garbage")
    assert "cannot be read" in logged.lines("mixer")[-1].data.reason
    logged.run(1, spot=1)
    assert "differ from the roster" in logged.lines("mixer")[-1].data.reason
    assert not logged.verify("mixer").findings


def test_a_repeated_request_adds_no_line(logged):
    plain = logged.ask

    def twice(role, run, request):
        first = plain(role, run, request)
        assert plain(role, run, request) == first
        return first

    logged.ask = twice
    assert logged.run(0).mean is not None
    for role in ROLES:
        assert logged.events(role) == ["boot", "pinned", *STEPS[role]]


class Crash(BaseException):
    """The process is killed."""


@pytest.mark.parametrize("torn", [None, 0, 1, 40, -1])
@pytest.mark.parametrize("role", ROLES)
def test_a_helper_killed_while_it_writes_its_log_answers_once_and_loses_no_line(logged, monkeypatch, role, torn):
    """At every step: the memory is there, and nothing, a part or all of the lines; then the server asks again."""
    plain, true, steps = logged.ask, store.append, []

    def killed(path, data, **named):
        true(path, data if torn is None else data[:torn], **named)
        raise Crash

    def ask(party, run, request):
        if party != role:
            return plain(party, run, request)
        steps.append(party)
        with monkeypatch.context() as patched, suppress(Crash):
            patched.setattr(store, "append", killed)
            plain(party, run, request)
        return plain(party, run, request)

    logged.ask = ask
    outcome = logged.run(0)
    assert outcome.mean is not None, outcome.aborted
    assert len(steps) == {"mixer": 8, "judge": 6}[role]
    assert logged.events(role) == ["boot", "pinned", *STEPS[role]]
    assert not logged.compare().findings


@pytest.mark.parametrize("role", ROLES)
def test_a_helper_killed_before_its_memory_is_written_has_said_nothing(logged, monkeypatch, role):
    plain = logged.ask

    def killed(*_given, **_named):
        raise Crash

    def ask(party, run, request):
        if party == role:
            before = logged.log_of(role).read_bytes()
            with monkeypatch.context() as patched:
                patched.setattr("f2ed.core.files.Lock.write", killed)
                with pytest.raises(Crash):
                    plain(role, run, request)
            assert logged.log_of(role).read_bytes() == before
        return plain(party, run, request)

    logged.ask = ask
    assert logged.run(0).mean is not None
    assert logged.events(role) == ["boot", "pinned", *STEPS[role]]


@pytest.mark.parametrize("change", ["removed", "cut", "replaced"])
def test_a_helper_without_its_log_does_not_go_on(logged, change):
    logged.run(0)
    path = logged.log_of("mixer")  # Its last line alone would be restored from the memory.
    whole = path.read_bytes()
    path.unlink()
    if change == "cut":
        path.write_bytes(b"".join(whole.splitlines(keepends=True)[:-2]))
    elif change == "replaced":
        path.write_bytes(b"x" * (len(whole) - 10))
    assert "its own log says why" in logged.run(1).aborted
    with pytest.raises(ConfigError, match=r"lacks lines that were signed, up to line 8; put the file back"):
        logged.agent("mixer").start(first=False)
    path.write_bytes(whole)
    logged.agent("mixer").start(first=False)
    assert logged.run(2).mean is not None


def test_a_memory_from_before_there_were_logs_is_taken_up(logged):
    logged.run(0)
    path = logged.memory("mixer")
    state = msgspec.msgpack.decode(path.read_bytes())[1]
    assert msgspec.msgpack.decode(state, type=HelperState).mark == (0, 0)
    write_atomic(path, state)
    logged.agent("mixer").start(first=False)
    assert logged.run(1).mean is not None
    assert not logged.compare().findings


def test_a_log_that_grew_large_is_continued(logged, monkeypatch):
    monkeypatch.setattr(LogFile.__new__, "__defaults__", (2000,))
    assert logged.run(0).mean is not None
    assert logged.run(1).mean is not None
    files = sorted((logged.folder / "judge").glob("*.log"))
    assert len(files) > 2
    assert not verify_logs(files, Authors.of([logged.roster])).findings


def decided(**changes):
    given = {"survivors": (1, 2, 3), "struck": (4,), "mask": b"m" * 32, "answer": b"a" * 32}
    return log.Decided(**PLACE | given | changes)


def set_signed(**changes):
    return log.SetSigned(**PLACE | {"clients": (1, 2, 3, 4), "envelopes": b"e" * 32} | changes)


BETWEEN_HELPERS = [
    ("terms", BEGAN, replace(BEGAN, terms=b"x" * 32)),
    ("keyset", log.KeysSeen(**PLACE, keyset=b"k" * 32), log.KeysSeen(**PLACE, keyset=b"x" * 32)),
    ("envelopes shown", log.Voted(**PLACE, shown=b"v" * 32), log.Voted(**PLACE, shown=b"x" * 32)),
    ("set", set_signed(), set_signed(clients=(1, 2, 3))),
    ("envelopes", set_signed(), set_signed(envelopes=b"x" * 32)),
    ("survivors", decided(), decided(survivors=(1, 2))),
    ("struck", decided(), decided(struck=())),
    ("mask", decided(), decided(mask=b"x" * 32)),
    ("struck after blame", log.Struck(**PLACE, clients=(2,)), log.Struck(**PLACE, clients=(3,))),
    *(("ctx", event, replace(event, ctx=b"x" * 32)) for event in (
        BEGAN, decided(), set_signed(), log.Struck(**PLACE, clients=(2,)), log.Voted(**PLACE, shown=b"v" * 32),
        log.Gave(**PLACE, what="shares", answer=b"a" * 32),
    )),
]  # fmt: skip


@pytest.mark.parametrize(("what", "event", "other"), BETWEEN_HELPERS)
def test_helpers_that_were_told_different_things_are_found(logged, what, event, other):
    found = logged.compare_written(mixer=[event], judge=[other])
    assert kinds(found) == ["split-view"]
    assert f"2 different values of {what}:" in found.findings[0].text
    assert "by the judge (University C); " in found.findings[0].text
    assert [line.data for line in found.findings[0].lines] == [other, event]
    assert kinds(logged.compare_written(mixer=[], judge=[])) == ["split-view"]


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize(
    ("what", "changed"),
    [("ctx", {"ctx": b"x" * 32}), ("input", {"input": b"x" * 32}), ("members", {"members": b"x" * 32}),
     ("terms", {"terms": b"x" * 32})],
)  # fmt: skip
def test_a_helper_that_was_told_something_else_than_a_node_is_found(logged, role, what, changed):
    found = logged.compare_written(client=[BEGAN], **{role: [replace(BEGAN, **changed)]})
    assert kinds(found) == ["split-view"]
    assert f"values of {what}:" in found.findings[0].text
    assert {line.by for line in found.findings[0].lines} == {1, log.HELPERS[role]}


@pytest.mark.parametrize("role", ROLES)
def test_keys_that_a_helper_was_shown_and_a_node_was_not_are_found(logged, role):
    shown = log.KeysSeen(**PLACE, keyset=b"x" * 32)
    found = logged.compare_written(client=[replace(BEGAN, keyset=b"k" * 32)], **{role: [shown]})
    assert "values of keyset:" in found.findings[0].text


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize(
    ("what", "event"),
    [("input", replace(BEGAN, input=b"x" * 32)), ("ctx", decided(ctx=b"x" * 32)), ("survivors", decided())],
)
def test_a_server_that_says_something_else_than_a_helper_is_found(logged, role, what, event):
    found = logged.compare_written(server=[closed(survivors=(1, 2))], **{role: [event]})
    assert f"2 different values of {what}:" in found.findings[0].text
    assert {line.by for line in found.findings[0].lines} == {log.SERVER, log.HELPERS[role]}


def test_a_round_that_the_server_hides_is_found_by_a_helper(logged):
    found = logged.compare_written(server=[closed(0), closed(2)], judge=[began(1)])
    assert kinds(found) == ["unlisted-round"]
    assert "the judge (University C) began round 1" in found.findings[0].text


@pytest.mark.parametrize(
    "event",
    [decided(), set_signed(), log.Voted(**PLACE, shown=b"v" * 32), log.Struck(**PLACE, clients=()),
     log.Gave(**PLACE, what="shares", answer=b"a" * 32), log.Gave(**PLACE, what="values", answer=b"a" * 32)],
)  # fmt: skip
def test_a_helper_that_answers_a_step_twice_is_found(logged, event):
    path = logged.write("mixer", event, replace(event, round=1))
    assert not verify_logs([path], Authors.of([logged.roster])).findings
    logged.write("mixer", event)
    assert kinds(verify_logs([path], Authors.of([logged.roster]))) == ["answered-twice"]


def test_a_helper_that_begins_a_round_twice_is_found(logged):
    path = logged.write("judge", BEGAN, replace(BEGAN, input=INPUT))
    assert kinds(verify_logs([path], Authors.of([logged.roster]))) == ["began-twice"]


def test_a_helper_writes_no_event_of_others_and_others_none_of_it(logged):
    text = texts(LogFile(logged.write("mixer", decided()), *[None] * 5))[-1][:-1]
    for by in (b"-1", b"1"):
        with pytest.raises(PeerError, match=f"an event Decided by author {by.decode()}"):
            read_line(text.replace(b'"by":-2', b'"by":' + by))
    with pytest.raises(ValueError, match="an event RoundClosed by author -2"):
        logged.write("mixer", closed())


def test_a_line_that_another_party_signed_for_a_helper_is_no_evidence(logged):
    path = logged.write("mixer", decided())
    forged = LogFile(logged.folder / "forged.log", log.MIXER, KEYS["judge"], *_of(logged.roster))
    forged.append(decided(survivors=(1, 2)))
    result = compare_logs([path, forged.path], Authors.of([logged.roster]))
    assert set(kinds(result)) <= {"signature", "gap", "chain"}
    assert "signature" in kinds(result)


def test_a_server_keeps_no_line_of_another_party_for_a_helper(logged):
    logged.run(0)
    heads = Heads(logged.roster)
    heads.take(log.MIXER, write_line(logged.lines("mixer")[-1]))
    with pytest.raises(PeerError, match="a line of the log of the judge"):
        heads.take(log.MIXER, write_line(logged.lines("judge")[-1]))
    with pytest.raises(PeerError, match="not signed by its author"):
        heads.take(log.MIXER, write_line(replace(logged.lines("judge")[-1], by=log.MIXER)))
    assert [line.by for line in heads.flush()[0]] == [log.MIXER]


def _of(roster):
    return roster.lineage, roster.digest, roster.serial


def test_a_log_in_the_folder_of_the_other_helper_is_refused(logged):
    agent = logged.agent("judge")
    agent._settings["f2ed-state"] = logged.folder / "mixer"
    with pytest.raises(ConfigError, match="is the log of the mixer, and this is the judge; name another folder"):
        agent.start(first=True)


def test_a_log_that_cannot_be_written_keeps_the_helper_silent(logged, monkeypatch):
    def full(*_given, **_named):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(store, "append", full)
    reply = logged.agents["mixer"].answer(1, b"garbage")
    assert "its own log says why" in decode((Refused,), reply.reply).reason
    assert reply.line == b""
