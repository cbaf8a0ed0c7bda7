"""Whoever changes a log, or writes two, is found, with the signed lines as evidence."""

import time

import msgspec
import pytest

from f2ed import ConfigError
from f2ed.deployment.transparency import Authors, read_line, verify_logs, write_line
from f2ed.deployment.transparency.lines import SERVER, Confirmed, KeysSeen, line_digest
from f2ed.protocol.secagg import public_key
from tests.deployment.logs import CTX, Federation, began, closed, kinds, texts, uploaded


@pytest.fixture
def federation(tmp_path):
    return Federation.create(tmp_path)


def test_an_untouched_log_has_no_findings(federation):
    result = federation.verify(federation.written())
    assert not result.findings
    assert (result.files[0].by, result.files[0].first, result.files[0].last, result.files[0].count) == (0, 0, 7, 8)


def rewritten(log, lines):
    log.path.write_bytes(b"".join(lines))
    return log


CHANGES = {
    "a line removed": (lambda lines: lines[:3] + lines[4:], ["gap"]),
    "the first line removed": (lambda lines: lines[1:], ["gap"]),
    "a line repeated": (lambda lines: [*lines[:4], *lines[3:]], ["gap"]),
    "two lines in another order": (lambda lines: [*lines[:3], lines[4], lines[3], *lines[5:]], ["gap"] * 3),
    "a digit changed": (lambda lines: [*lines[:2], lines[2].replace(b'"round":0', b'"round":9'), *lines[3:]],
                        ["signature", "chain"]),
    "garbage": (lambda lines: [*lines[:3], b"garbage\n", *lines[3:]], ["unreadable"]),
    "garbage at the end": (lambda lines: [*lines, b"garbage\n"], ["unreadable"]),
    "cut in a line": (lambda lines: [*lines[:-1], lines[-1][:50]], ["torn-end"]),
    "not canonical": (lambda lines: [*lines[:-1], lines[-1].replace(b",", b", ")], ["unreadable"]),
}  # fmt: skip


@pytest.mark.parametrize("change", CHANGES)
def test_a_changed_log_is_found(federation, change):
    changed, expected = CHANGES[change]
    log = federation.written()
    assert kinds(federation.verify(rewritten(log, changed(texts(log))))) == expected


def test_a_line_that_others_forged_is_no_evidence(federation):
    log = federation.written()
    lines = texts(log)
    last = read_line(lines[-1][:-1])
    federation.keys[0], right = federation.keys[1], federation.keys[0]
    forged = federation.resigned(last, data=began(9))
    federation.keys[0] = right
    result = federation.compare(rewritten(log, [*lines[:-1], write_line(forged) + b"\n"]), federation.written(1))
    assert kinds(result) == ["signature"]


def test_a_node_that_rewrites_its_past_breaks_its_chain(federation):
    log = federation.written()
    lines = texts(log)
    changed = federation.resigned(read_line(lines[4][:-1]), data=began(1, ctx=b"x" * 32))
    result = federation.verify(rewritten(log, [*lines[:4], write_line(changed) + b"\n", *lines[5:]]))
    assert kinds(result) == ["chain"]
    assert result.findings[0].lines[0] == changed


def test_a_node_that_rewrites_all_of_it_is_found_by_the_line_that_the_server_kept(federation):
    log = federation.written()
    head = read_line(texts(log)[-1][:-1])
    server = federation.log(SERVER)
    server.append(closed(heads=(head,)))
    assert not federation.verify(log, server).findings
    log.path.unlink()
    log.append(
        began(0, input=b"x" * 32), uploaded(0), *(each(round_) for round_ in (1, 2) for each in (began, uploaded))
    )
    assert not federation.verify(log).findings  # alone, it looks well
    result = federation.verify(log, server)
    assert kinds(result) == ["equivocation"]
    assert head in result.findings[0].lines
    assert {line.seq for line in result.findings[0].lines} == {head.seq}
    assert len({line_digest(line) for line in result.findings[0].lines}) == 2


def test_a_log_that_ends_before_the_line_that_the_server_kept_is_found(federation):
    log = federation.written()
    server = federation.log(SERVER)
    server.append(closed(heads=(read_line(texts(log)[-1][:-1]),)))
    result = federation.verify(rewritten(log, texts(log)[:-2]), server)
    assert kinds(result) == ["cut-off"]
    assert "ends at line 5; the server holds 7" in result.findings[0].text


def test_a_head_that_the_server_invented_is_found(federation):
    log = federation.written()
    head = read_line(texts(log)[-1][:-1])
    server = federation.log(SERVER)
    server.append(closed(heads=(Federation.create(federation.folder).resigned(head, data=began(7)),)))
    assert kinds(federation.verify(log, server)) == ["signature"]


def test_a_round_that_is_begun_twice_is_found(federation):
    log = federation.written()
    log.append(began(1))
    result = federation.verify(log)
    assert kinds(result) == ["began-twice"]
    assert [line.seq for line in result.findings[0].lines] == [4, 8]


def test_a_line_of_another_author_is_found(federation):
    log, other = federation.written(0), federation.written(1)
    assert kinds(federation.verify(rewritten(log, [*texts(log), texts(other)[-1]]))) == ["author"]


def test_a_log_of_another_federation_is_not_taken(federation, tmp_path):
    other = Federation.create(tmp_path, "others")._replace(keys=federation.keys)
    assert set(kinds(federation.verify(other.written()))) == {"signature"}


def test_a_stranger_is_named(federation):
    log = federation.written(2)
    roster = federation.roster
    without = Authors.of([roster])._replace(keys={0: (roster.keys[0],)})
    result = verify_logs([log.path], without)
    assert set(kinds(result)) == {"signature"}
    assert "not on the roster" in result.findings[0].text


def test_a_server_whose_key_the_roster_does_not_name_is_named(federation):
    server = federation.log(SERVER)
    server.append(closed())
    result = verify_logs([server.path], Authors.of([federation.roster])._replace(keys={}))
    assert "the roster names no key of the server" in result.findings[0].text


def test_a_server_with_two_histories_is_found(federation):
    one, other = federation.log(SERVER), federation.log(SERVER, "shown_to_b.log")
    one.append(closed(survivors=(0, 1, 2)))
    other.append(closed(survivors=(0, 1)))
    result = federation.compare(one, other)
    assert "equivocation" in kinds(result)
    assert "split-view" in kinds(result)
    assert len(next(each for each in result.findings if each.kind == "equivocation").lines) == 2


@pytest.mark.parametrize(
    ("what", "event", "other"),
    [
        ("ctx", began(), began(ctx=b"x" * 32)),
        ("input", began(), began(input=b"x" * 32)),
        ("members", began(), began(members=b"x" * 32)),
        ("keyset", began(keyset=b"k" * 32), began(keyset=b"x" * 32)),
        ("keyset", KeysSeen(round=0, shard=0, ctx=CTX, keyset=b"k" * 32),
         KeysSeen(round=0, shard=0, ctx=CTX, keyset=b"x" * 32)),
        ("survivors", Confirmed(round=0, shard=0, ctx=CTX, survivors=(0, 1, 2)),
         Confirmed(round=0, shard=0, ctx=CTX, survivors=(0, 1))),
    ],
)  # fmt: skip
def test_members_that_were_told_different_things_are_found(federation, what, event, other):
    logs = [federation.log(client) for client in range(3)]
    for log in logs[:2]:
        log.append(event)
    logs[2].append(other)
    result = federation.compare(*logs)
    assert kinds(result) == ["split-view"]
    assert f"2 different values of {what}" in result.findings[0].text
    assert [line.data for line in result.findings[0].lines] == [event, other]
    assert "by client 0 (a), client 1 (b); " in result.findings[0].text
    assert not federation.verify(*logs).findings


def test_a_server_that_says_something_else_than_its_members_is_found(federation):
    log, server = federation.written(rounds=1), federation.log(SERVER)
    server.append(closed(ctx=b"x" * 32))
    result = federation.compare(log, server)
    assert kinds(result) == ["split-view"]
    assert {line.by for line in result.findings[0].lines} == {0, SERVER}


def test_members_and_server_that_agree_have_no_findings(federation):
    logs = [federation.written(client) for client in range(3)]
    server = federation.log(SERVER)
    for round_ in range(3):
        server.append(closed(round_, heads=tuple(read_line(texts(log)[2 * round_ + 3][:-1]) for log in logs)))
    assert not federation.compare(*logs, server).findings


def test_a_round_that_the_server_does_not_list_is_found(federation):
    log, server = federation.written(rounds=4), federation.log(SERVER)
    server.append(closed(0), closed(2))
    result = federation.compare(log, server)
    assert kinds(result) == ["unlisted-round"]  # round 3 may be under way
    assert result.findings[0].lines[0].data == began(1)


def test_two_rosters_with_one_serial_are_found(federation):
    logs = [federation.log(0), federation.log(1, roster=b"r" * 32)]
    for log in logs:
        log.append()
    result = federation.compare(*logs)
    assert kinds(result) == ["two-rosters"]
    assert len(result.findings[0].lines) == 2


def test_rosters_of_two_federations_are_not_mixed(federation, tmp_path):
    with pytest.raises(ConfigError, match="rosters of 2 federations"):
        Authors.of([federation.roster, Federation.create(tmp_path, "others").roster])


@pytest.mark.parametrize("content", [b"", b"no log\n"])
def test_a_file_that_is_no_log_is_named(federation, content):
    log = federation.log()
    log.path.write_bytes(content)
    with pytest.raises(ConfigError, match="holds no line of a log"):
        federation.verify(log)


def test_a_file_that_is_missing_is_named(federation):
    with pytest.raises(ConfigError, match="cannot be read"):
        federation.verify(federation.log())


def test_ten_thousand_lines_are_verified_within_seconds(federation):
    log = federation.log()
    log.append(*(each(round_) for round_ in range(5000) for each in (began, uploaded)))
    since = time.process_time()
    result = federation.verify(log)
    assert time.process_time() - since < 20
    assert not result.findings
    assert result.files[0].count == 10_002


def test_the_files_of_one_log_are_put_in_order_by_their_lines(federation):
    lines = texts(federation.written())
    later, earlier = federation.log(name="a_later.log"), federation.log(name="b_earlier.log")
    result = federation.verify(rewritten(later, lines[4:]), rewritten(earlier, lines[:4]))
    assert not result.findings
    assert [each.path for each in result.files] == [earlier.path, later.path]


def test_a_server_whose_key_changed_is_checked_with_both_keys(federation):
    """The lines of either key verify, and no other key signs for the server."""
    old, new = federation.roster, msgspec.structs.replace(federation.roster, serial=2, server=public_key(bytes(32)))
    log = federation.log(SERVER)
    log.append(closed(0))
    log._replace(signing_key=bytes(32)).append(closed(1))
    both = Authors.of([old, new])
    assert not verify_logs([log.path], both).findings
    for one in (old, new):
        assert set(kinds(verify_logs([log.path], Authors.of([one])))) == {"signature"}
    log._replace(signing_key=b"k" * 32).append(closed(2))
    assert kinds(verify_logs([log.path], both)) == ["signature"]
