"""What a node says about a failure depends on the request and the roster alone: it quotes neither data nor files."""

import msgspec
import pytest
from flwr.app import ConfigRecord, Error, Message, RecordDict
from flwr.clientapp import ClientApp

from f2ed import ConfigError, PeerError
from f2ed.core.errors import F2edError, Refusal
from f2ed.deployment.training_rules import ANYTHING
from f2ed.deployment.transparency import LogFile
from f2ed.flower import protect
from f2ed.protocol.dp import Budget
from f2ed.protocol.secagg.messages import AskKey
from tests.adversary.lying_server import MEMBERS, VICTIM, LyingServer, app_with, training_request

DATA = "patient 4711 has a bad label"
HELLO = RecordDict({"f2ed": ConfigRecord({"hello": bytes(32)})})


def missing_module(*_):
    import patient_4711  # noqa: F401


def raises(error):
    def fail(*_):
        raise error

    return fail


FAULTS = {
    "an exception": raises(ValueError(DATA)),
    "an exit": raises(SystemExit(DATA)),
    "no ordinary exception": raises(BaseException(DATA)),
    "a refusal": raises(Refusal(DATA)),
    "a fault of a peer": raises(PeerError(DATA)),
    "a fault of the settings": raises(ConfigError(DATA)),
    "the root of our errors": raises(F2edError(DATA)),
    "an import": missing_module,
    "a key": lambda message, _: message.content[DATA],
    "an error": lambda message, _: Message(Error(1, DATA), reply_to=message),
    "nothing": lambda *_: None,
}


def failing(fault):
    app = ClientApp(mods=[protect])
    app.train()(fault)
    app.evaluate()(fault)
    app.query()(fault)
    return app


def said(reply):
    return reply.error.reason.encode() if reply.has_error() else bytes(reply.content["f2ed"]["reply"].data)


@pytest.mark.parametrize("kind", ["evaluate", "query"])
@pytest.mark.parametrize("fault", FAULTS)
def test_a_function_that_fails_in_the_clear_is_not_quoted(tmp_path, caplog, kind, fault):
    rules = msgspec.structs.replace(ANYTHING, messages=("train", "evaluate", "query"))
    server = LyingServer(tmp_path, failing(FAULTS[fault]), rules=rules, accepted=("evaluate",))
    reply = server.send(VICTIM, training_request(), kind)
    assert reply.error.reason == "f2ed: this node refused: this node failed; the reason is in its own log"
    assert ("4711" in caplog.text) == (fault != "nothing")


@pytest.mark.parametrize("fault", FAULTS)
def test_training_that_fails_is_not_quoted(tmp_path, caplog, fault):
    server = LyingServer(tmp_path, failing(FAULTS[fault])).lead(training_request(), training_request())
    assert all(b"4711" not in reply for reply in server.replies.values())
    assert server.opened() is None
    assert caplog.text.count("training failed, so random words leave") == MEMBERS


def test_a_failure_says_the_same_for_every_reason(tmp_path):
    rules = msgspec.structs.replace(ANYTHING, messages=("train", "evaluate"))
    texts = set()
    for place, fault in enumerate(FAULTS.values()):
        folder = tmp_path / str(place)
        folder.mkdir()
        server = LyingServer(folder, failing(fault), rules=rules, accepted=("evaluate",))
        texts.add(server.send(VICTIM, training_request(), "evaluate").error.reason)
    assert len(texts) == 1


def state_of(folder):
    return folder / f"client_{VICTIM}.state"


def damaged(name):
    def damage(folder, _):
        found = list(state_of(folder).glob(name))
        assert found
        for path in found:
            path.write_bytes(b"4711")

    return damage


LOCAL = {
    "a key that cannot be read": lambda folder, _: (folder / f"client_{VICTIM}.key").unlink(),
    "a key that others may read": lambda folder, _: (folder / f"client_{VICTIM}.key").chmod(0o644),
    "a roster that is none": lambda folder, _: (folder / "roster.json").write_text("4711"),
    "a roster that is missing": lambda folder, _: (folder / "roster.json").unlink(),
    "an authority that is none": lambda folder, _: (folder / "authority.pub").write_text("4711"),
    "a noise that is none": lambda _, settings: settings.update({"f2ed-noise-multiplier": DATA}),
    "a budget that is none": lambda _, settings: settings.update({"f2ed-dp-epsilon": DATA}),
    "a ledger without a budget": lambda _, settings: settings.update({"f2ed-ledger": DATA}),
    "a state folder that is a file": lambda folder, settings: settings.update(
        {"f2ed-state": str(folder / "roster.json")}
    ),
    "a damaged mark": damaged("*.rounds"),
    "a damaged layout": damaged("*.layout"),
    "a damaged pin": damaged("*.pin"),
    "damaged groups": damaged("*.groups"),
    "damaged keys": damaged("keys-*[0-9a-f]"),
}


@pytest.mark.parametrize("fault", LOCAL)
def test_a_fault_of_the_node_names_no_file_and_no_setting(tmp_path, caplog, fault):
    server = LyingServer(tmp_path, app_with(lambda *_: 1.0)).lead(training_request(), training_request())
    LOCAL[fault](tmp_path, server.nodes[VICTIM].node_config)
    server.later(1)
    replies = [said(server.send(VICTIM, HELLO)), server.ask(VICTIM, AskKey(server.terms))]
    try:
        server.lead(training_request(), training_request())
        replies += server.replies.values()
    except PeerError as error:
        replies.append(str(error).encode())
    assert any(b"the reason is in its own log" in reply for reply in replies)
    for reply in replies:
        assert b"4711" not in reply
        assert str(tmp_path).encode() not in reply
        assert b"client_" not in reply
    assert "this node cannot take part" in caplog.text


@pytest.mark.parametrize("content", [HELLO, training_request(), RecordDict()])
def test_a_full_disk_is_not_quoted(tmp_path, monkeypatch, content):
    """Not even if the refusal itself cannot be logged."""
    server = LyingServer(tmp_path, app_with(lambda *_: 1.0))
    monkeypatch.setattr(LogFile, "append", raises(OSError("no space left on /data/patient 4711")))
    reply = said(server.send(VICTIM, content))
    assert b"refused" in reply or b"this node failed" in reply
    assert b"4711" not in reply


@pytest.mark.parametrize("noise", [0.0, 1.0])
def test_a_budget_that_is_spent_gives_no_number_away(tmp_path, caplog, noise):
    """The ledger may hold what the node spent in other federations."""
    budget = Budget(tmp_path / "spent.json", 0.4711, 1e-5)
    for _ in range(2):
        with pytest.raises(Refusal) as refused:
            budget.pay(0.5 / noise**2 if noise else None)
        assert not set("0123456789") & set(str(refused.value))
    assert ("its budget is 0.4711" in caplog.text) == bool(noise)
