"""The logs of a federation with helpers: nodes, server, mixer and judge agree, and a lying server is found."""

from contextlib import suppress

import msgspec
import pytest

from f2ed.cli.log import compare
from f2ed.core.errors import OutageError, PeerError
from f2ed.deployment.transparency import Authors, compare_logs, read_line
from f2ed.deployment.transparency.lines import HELPERS, JUDGE, MIXER, SERVER, Began, Decided, RoundClosed
from f2ed.flower.wire import hello_nonce, reply_bytes, reply_content
from f2ed.protocol.helpers.messages import decode, write
from f2ed.protocol.helpers.requests import AskOpening
from tests.flower.fake_grid import silence
from tests.flower.helped_nodes import HelpedNodes, lead

ROLES = ("mixer", "judge")


def logs(it):
    """Return the logs of all parties, by author."""
    name = f"{it.roster.lineage}.log"
    found = {HELPERS[role]: it.folder / role / name for role in ROLES}
    found |= {client: it.folder / f"client_{client}.state" / name for client in range(len(it.clients))}
    return found | {SERVER: it.folder / "run.log"}


def lines(path):
    return [read_line(text) for text in path.read_bytes().splitlines()]


def compared(it):
    return compare_logs([path for path in logs(it).values() if path.exists()], Authors.of([it.roster]))


def test_all_parties_agree_and_the_server_keeps_the_helpers_newest_lines(tmp_path, capsys):
    it = HelpedNodes(tmp_path)
    gone = it.roster.groups[0].members[0]

    def from_round(finished):
        it.clients[gone].tamper = silence if finished.round == 0 else None

    lead(it, 3, on_round=from_round)
    assert not compared(it).findings
    rounds = [line.data for line in lines(logs(it)[SERVER]) if isinstance(line.data, RoundClosed)]
    assert all({MIXER, JUDGE} < {line.by for line in each.heads} for each in rounds)
    for role in ROLES:
        kept = [line.data.survivors for line in lines(logs(it)[HELPERS[role]]) if isinstance(line.data, Decided)]
        assert kept == [each.shards[0].survivors for each in rounds]
    began = [line.data for path in logs(it).values() for line in lines(path) if isinstance(line.data, Began)]
    assert len({each.terms for each in began if each.round == 0}) == 1
    compare(*logs(it).values(), roster=[tmp_path / "roster.json"])
    shown = capsys.readouterr().out
    assert "the mixer (the mixer's), " in shown
    assert "No problems found." in shown


@pytest.mark.parametrize("role", ROLES)
def test_a_round_that_a_helper_breaks_off_leaves_nothing_to_find(tmp_path, role):
    it, count = HelpedNodes(tmp_path), []

    def fall_silent(_message, reply):
        count.append(1)
        return None if len(count) == 6 else reply

    it.helpers[role].tamper = fall_silent
    server, _ = lead(it)
    assert server.records[0].skipped
    assert not compared(it).findings


@pytest.mark.parametrize("role", ROLES)
def test_lines_that_a_helper_sent_cannot_be_taken_back(tmp_path, role):
    it = HelpedNodes(tmp_path)
    lead(it, 2)
    path = logs(it)[HELPERS[role]]
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-3]))
    (found,) = compared(it).findings
    assert found.kind == "cut-off"
    assert f"the log of the {role} (the {role}'s) ends at line" in found.text


@pytest.mark.parametrize(("line", "reason"), [(b"", "a reply without a line"), (b"{}", "not a line of a log")])
@pytest.mark.parametrize("role", ROLES)
def test_an_answer_of_a_helper_without_its_line_is_not_taken(tmp_path, role, line, reason):
    it = HelpedNodes(tmp_path)

    def without(message, reply):
        if hello_nonce(message) is not None:
            return reply
        return type(reply)(reply_content(reply_bytes(reply), line), reply_to=message)

    it.helpers[role].tamper = without
    with pytest.raises(OutageError, match=rf"the {role} gave no opening: no reply \({reason}"):
        lead(it, max_skipped=1)


@pytest.mark.parametrize("role", ROLES)
def test_a_server_that_shows_one_helper_another_model_is_found(tmp_path, role):
    it = HelpedNodes(tmp_path)
    plain = it.ask

    def lie(party, request, arrays, config):
        if party == role:
            with suppress(PeerError):
                request = write(msgspec.structs.replace(decode((AskOpening,), request), model=b"x" * 32))
        return plain(party, request, arrays, config)

    it.ask = lie
    assert it.run().mean is None
    result = compared(it)
    assert {finding.kind for finding in result.findings} == {"split-view"}
    (inputs,) = (finding for finding in result.findings if "values of input" in finding.text)
    assert HELPERS[role] in {line.by for line in inputs.lines}
    assert len({line.data.input for line in inputs.lines}) == 2
