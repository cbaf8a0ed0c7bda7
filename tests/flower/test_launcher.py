"""A server that lies about apps, against the gate of a node, by the way on which Flower receives apps."""

import base64
import json
import logging
import time
import zipfile
from dataclasses import replace as changed
from io import BytesIO

import pytest

pytest.importorskip("flwr")

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from flwr.common.constant import ErrorCode
from flwr.supercore.constant import TaskType
from flwr.supercore.exit import exit as flower_exit
from flwr.supercore.exit.exit_code import EXIT_CODE_HELP
from flwr.supercore.fab import Fab
from flwr.supernode import start_client_internal

from f2ed import ConfigError
from f2ed.core.errors import PeerError, Refusal
from f2ed.deployment.pin import accept_weaker
from f2ed.flower import selftest
from f2ed.flower.launcher import guard_flower
from f2ed.flower.pinning import REFUSED, Gate
from tests.flower.node_bench import Bench, described, errors, make_app, runs, sha256


@pytest.fixture
def bench(tmp_path):
    return Bench(tmp_path)


@pytest.fixture
def stranger(tmp_path):
    """Return an app of the same name that nobody approved."""
    return make_app(tmp_path / "stranger", code="open('/tmp/stranger', 'w')\nclient = server = None\n")


@pytest.fixture
def guarded(bench):
    """Put the gate into Flower for one test."""
    gate = bench.gate()
    guard_flower(gate)
    return gate


def refused(state, content):
    return not runs(state, content) and [code for code, _ in errors(state)] == [ErrorCode.INVALID_FAB]


def test_an_approved_app_is_stored_and_gets_a_task(bench):
    state = bench.send(bench.app)
    assert runs(state, bench.app)
    assert errors(state) == []


@pytest.mark.usefixtures("guarded")
def test_a_node_that_is_not_admitted_is_told_that_its_last_process_may_count_as_connected():
    assert "for about a minute more" in flower_exit.EXIT_CODE_HELP[305]
    assert set(flower_exit.EXIT_CODE_HELP) == set(EXIT_CODE_HELP)


def test_a_strangers_app_is_refused_before_it_is_stored(bench, stranger, caplog):
    caplog.set_level(logging.ERROR, "f2ed.flower")
    assert refused(bench.send(stranger), stranger)
    assert "is not approved" in caplog.text


@pytest.mark.parametrize("place", [0, 100, -1])
def test_one_changed_byte_is_another_app(bench, place):
    content = bytearray(bench.app)
    content[place] ^= 1
    content = bytes(content)
    assert refused(bench.send(content), content)


def test_bytes_after_the_end_of_the_archive_are_another_app(bench):
    content = bench.app + b"\0"
    assert zipfile.is_zipfile(BytesIO(bench.app))
    assert refused(bench.send(content), content)


def test_the_approved_hash_on_other_bytes_is_refused_and_the_loop_goes_on(bench, stranger):
    run, fab = described(bench.app), Fab(sha256(bench.app), stranger, {})
    assert refused(bench.send(stranger, run=run, fab=fab), stranger)


def test_a_wrong_hash_on_approved_bytes_does_not_end_the_loop(bench):
    fab = Fab("00" * 32, bench.app, {})
    assert runs(bench.send(bench.app, fab=fab), bench.app)


@pytest.mark.parametrize(
    "lie",
    [
        {"fab_version": "1.0.0.80b5de1a/../../../../evil"},
        {"fab_version": "1.0.1"},
        {"fab_id": "clinics/.."},
        {"fab_id": "../../evil/good"},
        {"fab_hash": "00" * 32},
        {"run_id": 8},
        {"primary_task_type": TaskType.AGENT_APP},
    ],
    ids=lambda lie: next(iter(lie)),
)
def test_a_run_that_would_load_other_code_than_the_apps_own_is_refused(bench, lie):
    state = bench.send(bench.app, run=described(bench.app, **lie))
    assert state.get_fab(sha256(bench.app)) is None
    assert not list(state.get_tasks())
    assert [code for code, _ in errors(state)] == [ErrorCode.INVALID_FAB]


def test_signatures_that_the_server_brings_are_thrown_away(bench, stranger):
    key, now = Ed25519PrivateKey.generate(), int(time.time())
    mine = key.sign(now.to_bytes(8, "big") + bytes.fromhex(sha256(stranger)))
    said = json.dumps({"signed_at": now, "signature": base64.urlsafe_b64encode(mine).decode()})
    gate = bench.gate()
    for entity in (*gate.trusted, "stranger"):
        fab = Fab(sha256(stranger), stranger, {"valid_license": "yes", entity: said})
        assert refused(bench.send(stranger, gate=gate, fab=fab), stranger)


def test_the_signature_of_another_start_of_the_node_is_worth_nothing(bench, stranger):
    said = bench.gate().sign(stranger)
    assert refused(bench.send(stranger, fab=Fab(sha256(stranger), stranger, {"valid_license": "x"} | said)), stranger)


def test_without_the_gate_flower_refuses_even_an_approved_app(bench, monkeypatch):
    gate = bench.gate()
    monkeypatch.setattr(Gate, "guard", lambda _self, connect: connect)
    assert refused(bench.send(bench.app, gate=gate, fab=Fab(sha256(bench.app), bench.app, {})), bench.app)


def test_an_app_that_is_revoked_is_refused_for_the_next_run(bench, tmp_path):
    gate = bench.gate()
    assert runs(bench.send(bench.app, gate=gate), bench.app)
    bench.approve(make_app(tmp_path / "other", name="other"))
    assert refused(bench.send(bench.app, gate=gate), bench.app)


def test_an_app_that_is_approved_later_needs_no_restart(bench, tmp_path):
    gate, other = bench.gate(), make_app(tmp_path / "other", name="other")
    named = described(other, fab_id="clinics/other")
    assert refused(bench.send(other, gate=gate, run=named), other)
    bench.approve(bench.app, other)
    assert runs(bench.send(other, gate=gate, run=named), other)


def test_a_roster_that_was_changed_approves_nothing(bench):
    gate, text = bench.gate(), bench.roster.read_text()
    bench.roster.write_text(text.replace("clinics/good 1.0.0", "clinics/good 1.0.1"))
    assert bench.roster.read_text() != text
    assert refused(bench.send(bench.app, gate=gate), bench.app)
    with pytest.raises(PeerError, match="was changed after it was signed"):
        bench.gate()


def test_a_roster_of_another_authority_approves_nothing(bench, tmp_path):
    (tmp_path / "foreign").mkdir()
    gate, foreign = bench.gate(), Bench(tmp_path / "foreign")
    bench.roster.write_bytes(foreign.roster.read_bytes())
    assert refused(bench.send(bench.app, gate=gate), bench.app)
    with pytest.raises(PeerError, match="this node trusts"):
        bench.gate()


def test_a_roster_that_is_gone_approves_nothing(bench):
    gate = bench.gate()
    bench.roster.unlink()
    assert refused(bench.send(bench.app, gate=gate), bench.app)
    with pytest.raises(ConfigError, match="cannot be read"):
        bench.gate()


def test_a_roster_that_has_expired_approves_nothing(bench, caplog):
    caplog.set_level(logging.ERROR, "f2ed.flower")
    gate = bench.gate()
    bench.approve(bench.app, expires="9999-12-31")
    assert runs(bench.send(bench.app, gate=gate), bench.app)
    bench.approve(bench.app, expires="2020-01-01")
    assert refused(bench.send(bench.app, gate=gate), bench.app)
    assert "expired on 2020-01-01" in caplog.text
    with pytest.raises(Refusal, match="expired on 2020-01-01"):
        bench.gate()


def test_an_older_file_that_is_put_back_approves_nothing_again(bench, tmp_path, caplog):
    caplog.set_level(logging.ERROR, "f2ed.flower")
    gate, old = bench.gate(), bench.roster.read_bytes()
    other = make_app(tmp_path / "other", name="other")
    bench.approve(other)
    assert refused(bench.send(bench.app, gate=gate), bench.app)
    bench.roster.write_bytes(old)
    assert refused(bench.send(bench.app, gate=gate), bench.app)
    assert "serial 1 of the roster 'clinics' is older than serial 2" in caplog.text


def test_a_serial_that_newly_accepts_any_app_waits_for_the_site(bench, stranger, caplog):
    caplog.set_level(logging.ERROR, "f2ed.flower")
    gate = bench.gate()
    weaker = bench.approve(accepted=("unpinned-app",))
    assert refused(bench.send(stranger, gate=gate), stranger)
    assert "the risk 'unpinned-app' is accepted" in caplog.text
    accept_weaker(bench.identity.with_suffix(".state"), weaker.digest)
    assert runs(bench.send(stranger, gate=gate), stranger)


def test_all_serials_in_a_folder_are_followed(bench, tmp_path):
    other = make_app(tmp_path / "other", name="other")
    folder = tmp_path / "serials"
    folder.mkdir()
    (folder / "1.json").write_bytes(bench.roster.read_bytes())
    gate = Gate(bench.settings | {"f2ed-roster": str(folder)})
    bench.approve(bench.app)
    (folder / "2.json").write_bytes(bench.roster.read_bytes())
    bench.approve(other)
    (folder / "3.json").write_bytes(bench.roster.read_bytes())
    assert gate.roster().serial == 3
    assert refused(bench.send(bench.app, gate=gate), bench.app)


def test_a_roster_without_apps_approves_nothing(bench):
    gate = bench.gate()
    bench.approve()
    assert refused(bench.send(bench.app, gate=gate), bench.app)


def test_only_a_roster_that_names_the_risk_lets_any_app_run(tmp_path):
    bench = Bench(tmp_path, accepted=("unpinned-app",))
    stranger = make_app(tmp_path / "stranger", code="x = 1\n")
    assert refused(bench.send(stranger), stranger), "there is a list"
    bench.approve()
    assert runs(bench.send(stranger), stranger)


def test_the_state_of_another_run_is_not_handed_over(bench):
    state = bench.send(bench.app, run=described(bench.app, series_id=99))
    assert state.get_run(7).series_id == 7
    assert state.get_run_series_context(99) is None


def test_the_server_learns_no_reason(bench, stranger, guarded):
    assert errors(bench.send(stranger, gate=guarded)) == [(REFUSED.code, REFUSED.reason)]
    assert "log" in REFUSED.reason


def test_the_start_is_refused_where_flower_accepts_a_strangers_app(guarded, monkeypatch):
    selftest.check_flower(guarded)
    monkeypatch.setattr(start_client_internal, "_verify_fab", lambda *_: True)
    with pytest.raises(ConfigError, match="does not refuse a stranger's app"):
        selftest.check_flower(guarded)


def test_the_start_is_refused_where_flower_follows_redirects(bench):
    with pytest.raises(ConfigError, match="follows redirects"):
        selftest.check_flower(bench.gate())


def test_a_message_for_an_app_that_was_revoked_meanwhile_is_answered_with_an_error(bench, tmp_path):
    gate, sent, pushed = bench.gate(), [], []
    message = _message()

    def send(reply, tree, _seconds):
        sent.append(reply)
        return {tree.object_id}, "session"

    def connect():
        return _connection(message, bench.app, send, lambda *what: pushed.append(what))

    with gate.guard(connect)() as (_, receive, _send, get_run, get_fab, *_rest):
        assert receive() == (message, None)
        get_run(7)
        assert len(get_fab("", 7).verifications) == 2
        assert receive() == (message, None)
        bench.approve(make_app(tmp_path / "other", name="other"))
        assert receive() is None
    (reply,) = sent
    assert reply.error.code == ErrorCode.INVALID_FAB
    assert reply.metadata.reply_to_message_id == message.metadata.message_id
    ((run, session, name, content),) = pushed
    assert (run, session, name) == (7, "session", reply.metadata.message_id)
    assert content


def _message():
    from flwr.app import Metadata, RecordDict
    from flwr.app.message import make_message

    return make_message(Metadata(7, "m", 1, 1, "", "", time.time(), 60.0, "train"), RecordDict())


def _connection(message, content, send, push):
    from contextlib import contextmanager

    @contextmanager
    def connect():
        yield (
            1,
            lambda: (message, None),
            send,
            lambda run: changed(described(content), run_id=run),
            lambda _hash, _run: Fab(sha256(content), content, {}),
            None,
            push,
            None,
        )

    return connect()
