"""What the server may ask of training is what the authority signed: anything else is refused by its name.

All members are asked alike here, so nothing would be wrong with the masks: the rules alone stand in the way.
"""

import json
import math

import msgspec
import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, RecordDict
from flwr.clientapp import ClientApp

from f2ed import PeerError
from f2ed.core.errors import OutageError
from f2ed.deployment.roster import App, read_roster, write_roster
from f2ed.deployment.rule_text import exact_rules, merged_rules
from f2ed.deployment.running_app import APP
from f2ed.deployment.training_rules import ANYTHING, TrainingRules
from f2ed.flower import protect
from f2ed.flower.handover import train_input
from f2ed.flower.wire import reply_bytes
from f2ed.protocol.secagg.messages import AskKey
from tests.adversary.lying_server import MEMBERS, SIZE, VICTIM, LyingServer, app_with, model, secret, training_request
from tests.flower.fake_grid import FakeGrid
from tests.flower.fake_grid import model as small_model
from tests.flower.fake_grid import server as small_server

RULES = TrainingRules(
    settings=merged_rules(
        (), ["lr=float:0.0..1.0", "steps=int:1..10", "shuffle=bool", "optimizer=str:sgd,adam", "decay=float"]
    ),
    run_config=exact_rules({"lr": 1.0}),
)
ALLOWED = {"server-round": 1, "lr": 1.0, "steps": 10, "shuffle": True, "optimizer": "adam"}


def lying(folder, rate=lambda *_: 1.0, **given):
    return LyingServer(folder, app_with(rate), **{"rules": RULES} | given)


def refuses(server, words, clients=range(MEMBERS)):
    for client in clients:
        with pytest.raises(PeerError, match=f"it refused: .*{words}"):
            server.upload(client)
    return True


def test_what_the_rules_allow_opens(tmp_path):
    server = lying(tmp_path).lead(training_request(ALLOWED), training_request(ALLOWED))
    np.testing.assert_allclose(server.opened(), sum(map(secret, range(MEMBERS))), atol=1e-5)


SETTINGS = {
    "an unknown setting": ({"debug": True}, r"the setting 'debug' is not in the roster's rules.*'debug=bool'"),
    "an unknown list": ({"layers": [1, 2]}, r"the setting 'layers' is not in the roster's rules.*--any-setting"),
    "a name in another case": ({"LR": 0.1}, "the setting 'LR' is not in"),
    "a name with a space": ({"lr ": 0.1}, "the setting 'lr ' is not in"),
    "above the range": ({"lr": 1e9}, "'lr' is '1000000000.0' .float.; the roster allows float:0.0..1.0"),
    "below the range": ({"steps": 0}, "'steps' is '0' .int.; the roster allows int:1..10"),
    "infinity": ({"lr": math.inf}, "'lr' is 'inf'"),
    "infinity without a range": ({"decay": -math.inf}, "'decay' is '-inf'"),
    "not a number": ({"lr": math.nan}, "not a number"),
    "int for float": ({"lr": 1}, "'lr' is '1' .int."),
    "float for int": ({"steps": 1.0}, "'steps' is '1.0' .float."),
    "bool for int": ({"steps": True}, "'steps' is 'True' .bool."),
    "int for bool": ({"shuffle": 1}, "'shuffle' is '1' .int."),
    "text for a number": ({"lr": "0.1"}, "'lr' is '0.1' .str."),
    "a list of one": ({"lr": [0.1]}, "'lr' is '.0.1.' .list."),
    "bytes for text": ({"optimizer": b"sgd"}, "'optimizer' is .* .bytes."),
    "not among the values": ({"optimizer": "lbfgs"}, "the roster allows str:sgd,adam"),
    "a bool for the round": ({"server-round": True}, "'server-round' is 'True' .bool."),
    "a round of nothing": ({"server-round": 0}, "'server-round' is '0'"),
    "a round that is not one": ({"server-round": "1"}, "'server-round' is '1' .str."),
}


@pytest.mark.parametrize("attack", SETTINGS)
def test_a_setting_outside_of_the_rules_is_refused_by_everyone(tmp_path, attack):
    setting, words = SETTINGS[attack]
    request = training_request(ALLOWED | setting)
    server = lying(tmp_path).lead(request, request)
    assert refuses(server, words)
    assert server.app.rates == []


def test_a_refused_request_spends_no_round(tmp_path):
    """A server that tried is answered once it asks for what is allowed; the marks are not wasted."""
    server = lying(tmp_path).lead(training_request(ALLOWED | {"lr": 2.0}), training_request(ALLOWED | {"lr": 2.0}))
    assert server.lead(training_request(ALLOWED), training_request(ALLOWED)).opened() is not None


def test_without_rules_no_setting_is_allowed_but_the_round(tmp_path):
    server = lying(tmp_path, rules=TrainingRules(run_config=RULES.run_config))
    assert refuses(server.lead(training_request(), training_request()), "the setting 'lr' is not in the roster's rules")
    plain = training_request({"server-round": 1})
    assert server.lead(plain, plain).opened() is not None


RUN_CONFIGS = {
    "another value": ({"lr": 0.5}, "the run setting 'lr' is '0.5' .float.; the roster allows float:1.0"),
    "another kind": ({"lr": 1}, "the run setting 'lr' is '1' .int."),
    "a bool": ({"lr": True}, "the run setting 'lr' is 'True' .bool."),
    "one more": ({"lr": 1.0, "more": "x"}, "the run setting 'more' is not in the roster's rules.*--run-setting"),
    "none": ({}, "the run lacks the run setting 'lr'"),
    "not a number": ({"lr": math.nan}, "the setting 'lr' is not a number"),
}


@pytest.mark.parametrize("attack", RUN_CONFIGS)
@pytest.mark.parametrize("who", ["everyone", "the victim"])
def test_a_run_configuration_outside_of_the_rules_is_refused(tmp_path, attack, who):
    run_config, words = RUN_CONFIGS[attack]
    server = lying(tmp_path)
    told = range(MEMBERS) if who == "everyone" else [VICTIM]
    for client in told:
        server.nodes[client].run_config = run_config
    hello = RecordDict({"f2ed": ConfigRecord({"hello": bytes(32)})})
    for ask in (lambda client: server.answer(client, hello), lambda client: server.ask(client, AskKey(server.terms))):
        server.replies = {client: ask(client) for client in told}
        assert refuses(server, words, told)


def test_settings_of_the_server_do_not_reach_the_app(tmp_path):
    """So the victim may be told another path of the checkpoint; it is bound all the same."""
    seen = []
    server = lying(tmp_path, lambda _, context: seen.append(dict(context.run_config)) or 1.0)
    for node in server.nodes:
        node.run_config = {"lr": 1.0, "f2ed-checkpoint": "model.bin"}
    assert server.lead(training_request(ALLOWED), training_request(ALLOWED)).opened() is not None
    assert seen == [{"lr": 1.0}] * MEMBERS


def test_settings_of_the_server_are_bound(tmp_path):
    server = lying(tmp_path)
    server.nodes[VICTIM].run_config = {"lr": 1.0, "f2ed-checkpoint": "other"}
    assert server.lead(training_request(ALLOWED), training_request(ALLOWED)).opened() is None


def wider(**arrays):
    return training_request(ALLOWED, ArrayRecord(dict(model()) | {name: Array(to) for name, to in arrays.items()}))


LAYOUTS = {
    "an array more": wider(imprint=np.zeros(1, np.int64)),
    "another type": wider(n=np.array([3, 4], np.int32)),
    "another shape": wider(x=np.zeros((2, SIZE // 2), np.float32)),
    "an array without dimensions": wider(n=np.array(3)),
    "another order": training_request(ALLOWED, ArrayRecord({name: model()[name] for name in ("n", "x")})),
    "another name": training_request(ALLOWED, ArrayRecord({"y": model()["x"], "n": model()["n"]})),
}
LAYOUT = train_input(model(), ConfigRecord()).layout()


@pytest.mark.parametrize("attack", LAYOUTS)
def test_a_model_of_another_layout_than_the_signed_one_is_refused(tmp_path, attack):
    server = lying(tmp_path, rules=msgspec.structs.replace(RULES, layout=LAYOUT))
    assert refuses(server.lead(LAYOUTS[attack], LAYOUTS[attack]), "the roster was signed for")
    assert server.lead(training_request(ALLOWED), training_request(ALLOWED)).opened() is not None


@pytest.mark.parametrize("attack", LAYOUTS)
def test_without_a_signed_layout_the_first_is_pinned(tmp_path, attack):
    server = lying(tmp_path).lead(training_request(ALLOWED), training_request(ALLOWED))
    assert server.opened() is not None
    again = server.later(1).lead(LAYOUTS[attack], LAYOUTS[attack])
    assert refuses(again, "under this roster the node has trained")
    assert again.lead(training_request(ALLOWED), training_request(ALLOWED)).opened() is not None


def test_a_layout_in_a_refused_request_is_not_pinned(tmp_path):
    """Else one message with a bad setting would keep a node from the real model."""
    bad = training_request(ALLOWED | {"lr": 2.0}, LAYOUTS["an array more"]["arrays"])
    server = lying(tmp_path).lead(bad, bad)
    assert server.lead(training_request(ALLOWED), training_request(ALLOWED)).opened() is not None


def evaluating(seen=None):
    """Return an app that answers everything, and a state that only `evaluate` leaves."""
    app = ClientApp(mods=[protect])
    app.rates = []

    @app.train()
    def train(message, context):
        app.rates.append(len(context.state))
        context.state["left"] = ConfigRecord({"by": "train"})
        after = ArrayRecord({**message.content["arrays"]})
        step = secret(context.node_config["partition-id"]) * ("left" in context.state)
        after["x"] = Array(after["x"].numpy() + step)
        return Message(RecordDict({"arrays": after}), reply_to=message)

    def answer(message, context):
        if seen is not None:
            seen.append((message, context))
        context.state["left"] = ConfigRecord({"by": "evaluate"})
        return Message(RecordDict({"metrics": ConfigRecord({"loss": 0.5})}), reply_to=message)

    for register in (app.evaluate, app.query):
        register()(answer)
        register("own")(answer)
    return app


@pytest.mark.parametrize("kind", ["evaluate", "query", "evaluate.own", "query.own"])
def test_nothing_is_answered_in_the_clear(tmp_path, kind):
    seen = []
    server = LyingServer(tmp_path, evaluating(seen), rules=RULES)
    reply = server.send(VICTIM, training_request(ALLOWED), kind)
    assert not reply.has_content()
    assert f"a request of type '{kind}'; the roster allows train alone" in reply.error.reason
    assert f"f2ed roster sign --message {kind} --accept evaluate" in reply.error.reason
    assert seen == []
    assert len(server.nodes[VICTIM].state) == 0


@pytest.mark.parametrize("kind", ["train.own", "get_parameters", "reconnect"])
def test_an_unknown_message_is_refused(tmp_path, kind):
    server = LyingServer(tmp_path, evaluating(), rules=RULES)
    passed_on = []
    message, context = server.message(VICTIM, training_request(ALLOWED))
    message.metadata.__dict__["_message_type"] = kind
    reply = protect(message, context, lambda *given: passed_on.append(given))
    said = (
        reply.error.reason if reply.has_error() else bytes(reply.content["f2ed"]["reply"].data).decode(errors="replace")
    )
    assert f"a request of type '{kind}'" in said
    assert passed_on == []


OPEN = {"rules": msgspec.structs.replace(RULES, messages=("train", "evaluate")), "accepted": ("evaluate",)}


def test_an_accepted_evaluation_sees_what_training_sees(tmp_path):
    seen = []
    server = LyingServer(tmp_path, evaluating(seen), **OPEN)
    reply = server.send(VICTIM, training_request(ALLOWED), "evaluate", group_id="mine", ttl=7.0)
    assert dict(reply.content["metrics"]) == {"loss": 0.5}
    assert set(reply.content) == {"metrics"}
    ((message, context),) = seen
    assert (message.metadata.group_id, message.metadata.ttl, context.run_id, context.node_id) == ("1", 1e6, 0, 0)
    assert len(server.nodes[VICTIM].state) == 0
    assert server.send(VICTIM, RecordDict(), "evaluate").has_content()


def test_an_accepted_evaluation_keeps_to_the_rules(tmp_path):
    seen = []
    server = LyingServer(tmp_path, evaluating(seen), **OPEN)
    for content, words in (
        (training_request(ALLOWED | {"lr": 7.0}), "'lr' is '7.0'"),
        (training_request(ALLOWED, more=model()), "a ArrayRecord 'more'"),
        (training_request(ALLOWED, ArrayRecord({"x": Array("float32", (2**40,), "numpy.ndarray", b"")})), "npy header"),
    ):
        assert words in server.send(VICTIM, content, "evaluate").error.reason
    # With the protocol's record it is an evaluation under masks, for which the authority named no metrics.
    masked = server.send(VICTIM, training_request(ALLOWED, f2ed=ConfigRecord({"hello": bytes(32)})), "evaluate")
    assert b"the roster names no metrics" in reply_bytes(masked)
    server.lead(training_request(ALLOWED), training_request(ALLOWED))
    assert "has trained" in server.send(VICTIM, LAYOUTS["another type"], "evaluate").error.reason
    assert "of type 'query'" in server.send(VICTIM, training_request(ALLOWED), "query").error.reason
    assert seen == []


def test_a_state_is_kept_only_where_the_roster_accepts_it(tmp_path):
    rules = msgspec.structs.replace(RULES, stateful=True)
    server = LyingServer(tmp_path, evaluating(), rules=rules, accepted=("stateful",))
    for round_ in range(3):
        server.later(round_).lead(training_request(ALLOWED), training_request(ALLOWED))
        assert server.opened() is not None
    assert server.app.rates == [0] * MEMBERS + [1] * 2 * MEMBERS


@pytest.mark.parametrize(
    ("rules", "risk"), [({"stateful": True}, "stateful"), ({"messages": ("train", "query")}, "evaluate")]
)
def test_a_roster_that_does_not_name_its_risks_is_not_read(tmp_path, caplog, rules, risk):
    server = lying(tmp_path, accepted=(risk,), rules=msgspec.structs.replace(RULES, **rules))
    found = json.loads((tmp_path / "roster.json").read_text())
    found["accepted"].remove(risk)
    (tmp_path / "roster.json").write_text(json.dumps(found))
    reply = server.send(VICTIM, RecordDict({"f2ed": ConfigRecord({"hello": bytes(32)})}))
    assert b"the reason is in its own log" in bytes(reply.content["f2ed"]["reply"].data)
    assert f"sign with --accept {risk}" in caplog.text


def test_members_with_different_apps_open_nothing(tmp_path, monkeypatch):
    apps = App(b"1" * 32, "one"), App(b"2" * 32, "two")
    server = lying(tmp_path, apps=apps)

    def answer(client):
        monkeypatch.setenv(APP, apps[client == VICTIM].sha256.hex())
        return type(server.nodes[client]).answer.__get__(server.nodes[client])

    for client in range(MEMBERS):
        server.nodes[client].answer = lambda *given, client=client: answer(client)(*given)
    assert server.lead(training_request(ALLOWED), training_request(ALLOWED)).opened() is None


def test_members_with_the_same_approved_app_open_their_sum(tmp_path, monkeypatch):
    server = lying(tmp_path, apps=(App(b"1" * 32, "one"),))
    monkeypatch.setenv(APP, (b"1" * 32).hex())
    assert server.lead(training_request(ALLOWED), training_request(ALLOWED)).opened() is not None


@pytest.mark.parametrize(("stated", "words"), [("", "start it with f2ed node"), ("33" * 32, "is not approved")])
def test_an_app_that_was_not_approved_gets_no_answer(tmp_path, monkeypatch, stated, words):
    server = lying(tmp_path, apps=(App(b"1" * 32, "one"),))
    monkeypatch.setenv(APP, stated)
    for content in (RecordDict({"f2ed": ConfigRecord({"hello": bytes(32)})}), training_request(ALLOWED)):
        server.replies[VICTIM] = server.answer(VICTIM, content)
        assert refuses(server, words, [VICTIM])


@pytest.mark.parametrize("mode", ["all-or-nothing", "dropout-tolerant"])
def test_the_rules_hold_in_every_mode(federation, mode):
    """A server that passes its own checks, and asks for more once the nodes have agreed on keys."""
    _, nodes, roster = federation(12, 2, min_crowd=6, signed={"mode": mode}, fields={"training": TrainingRules()})

    class Greedy(FakeGrid):
        def push_messages(self, messages):
            for message in messages:
                if "config" in message.content:
                    message.content["config"] = ConfigRecord({"server-round": 1, "lr": 7.0})
            return super().push_messages(messages)

    leader = small_server(roster, mode=mode, min_shards=1)
    with pytest.raises(OutageError, match="nothing was opened"):
        leader.start(Greedy(nodes, 7), small_model(), num_rounds=1)
    (record,) = leader.records
    assert len(record.dropped) == 12
    assert all("the setting 'lr' is not in the roster's rules" in reason for reason in record.dropped.values())
    honest = small_server(roster, mode=mode, min_shards=1)
    honest.start(FakeGrid(nodes, 8), small_model(), num_rounds=1)
    assert honest.records[0].dropped == {}


def test_the_rules_are_part_of_what_is_signed(tmp_path):
    server = lying(tmp_path)
    roster = read_roster(tmp_path / "roster.json")
    write_roster(tmp_path / "roster.json", msgspec.structs.replace(roster, training=ANYTHING))
    server.replies[VICTIM] = server.answer(VICTIM, RecordDict({"f2ed": ConfigRecord({"hello": bytes(32)})}))
    assert refuses(server, "changed after it was signed", [VICTIM])
