"""Whole runs over a grid in this process: the server's side and the clients' side together."""

import os

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, ConfigRecord, Error, Message, RecordDict

from f2ed import ConfigError, Encoding, FilterL2, OutageError
from f2ed.flower.arrays import update_plan
from f2ed.flower.wire import reply_bytes, reply_content
from tests.flower.fake_grid import (
    FakeGrid,
    Node,
    change,
    model,
    moved_by,
    opened,
    real_roster,
    server,
    silence,
    user_app,
    vector,
)

MODES = ["all-or-nothing", "dropout-tolerant"]


@pytest.mark.parametrize("mode", MODES)
def test_the_model_moves_by_the_mean_of_all_clients(federation, mode):
    grid, _, roster = federation(signed={"mode": mode})
    result = server(roster, mode=mode).start(grid, model(), num_rounds=3)
    shards = roster.assignment(0).shards
    np.testing.assert_allclose(vector(result.arrays), moved_by([shards] * 3), atol=3e-6)


def test_integers_of_the_model_stay_what_they_are(federation):
    grid, _, roster = federation()
    result = server(roster).start(grid, model(), num_rounds=1)
    assert result.arrays["count"].numpy() == [7]
    assert result.arrays["weight"].numpy().dtype == np.float32


def test_a_model_without_floats_is_refused(federation):
    grid, _, roster = federation()
    with pytest.raises(ConfigError, match="without a single array of floats"):
        server(roster).start(grid, ArrayRecord({"count": Array(np.array([7]))}), num_rounds=1)


def test_empty_arrays_do_no_harm():
    arrays = ArrayRecord({"empty": Array(np.zeros((0, 3), np.float32)), "bias": Array(np.zeros(3, np.float32))})
    assert update_plan(arrays, None, clip_value=1.0).sizes == (3,)


def test_after_set_up_a_round_is_one_exchange(federation):
    grid, _, roster = federation()
    server(roster).start(grid, model(), num_rounds=1)
    first = grid.pushes
    grid, _, roster = federation(run_id=8)
    server(roster).start(grid, model(), num_rounds=6)
    assert grid.pushes == first + 5 * 2, "shards are asked on their own"


def test_keys_are_changed_after_as_many_rounds_as_were_set(federation):
    grid, _, roster = federation(signed={"key_rounds": 2})
    server(roster, key_rounds=2).start(grid, model(), num_rounds=4)
    # Who are you; in each of two shards keys, ciphertexts, chains and upload, upload; the same again.
    assert grid.pushes == 1 + 2 * (5 + 5)


@pytest.mark.usefixtures("simulated")
@pytest.mark.parametrize("mode", MODES)
def test_masked_equals_plain_to_the_bit(mode):
    def run(*, secure, run_id):
        run_config = {"f2ed-roster": f"test:8/2/{mode}", "f2ed-rounding-seed": 5}
        grid = FakeGrid([Node(client, user_app(), run_config=run_config) for client in range(8)], run_id)
        leader = server(f"test:8/2/{mode}", secure=secure, estimator=FilterL2(contamination=0.4), malicious=0)
        return vector(leader.start(grid, model(), num_rounds=3).arrays).tobytes()

    assert run(secure=True, run_id=1) == run(secure=False, run_id=2)


@pytest.mark.parametrize("mode", MODES)
def test_no_plain_update_is_in_any_message(federation, mode):
    seen = []
    grid, _, roster = federation(signed={"mode": mode}, seen=seen)
    server(roster, mode=mode).start(grid, model(), num_rounds=1)
    wire = b"".join(reply_bytes(reply) for reply in grid.replies)
    assert all(set(reply.content) == {"f2ed"} for reply in grid.replies)
    assert len(seen) == 6
    for client, round_, arrays in seen:
        step = change(client, round_)
        # Four coordinates in a row, as floats of either width, as trained, and in the protocol's fixed point.
        fixed = np.floor(step[:4] / Encoding(1.0).unit)
        plain = [vector(arrays)[:4], step[:4], step[:4].astype(np.float64), fixed.astype("<i4"), fixed.astype("<i8")]
        for each in plain:
            assert each.tobytes() not in wire


@pytest.mark.parametrize(
    ("what", "tamper"),
    [
        ("silent", silence),
        ("an error", lambda message, _: Message(Error(code=3, reason="broken"), reply_to=message)),
        ("garbage", lambda message, _: Message(reply_content(os.urandom(200)), reply_to=message)),
        ("nothing", lambda message, _: Message(RecordDict({}), reply_to=message)),
        ("plain", lambda message, _: Message(RecordDict({"arrays": model()}), reply_to=message)),
        ("settings", lambda message, _: Message(RecordDict({"f2ed": ConfigRecord({"reply": b"x"})}), reply_to=message)),
    ],
)
def test_a_client_that_fails_closes_its_own_shard_and_no_other(federation, what, tamper):
    grid, nodes, roster = federation()
    bad, open_shard = roster.assignment(0).shards
    victim = bad[0]
    nodes[victim].tamper = lambda message, reply: (
        reply if "hello" in message.content["f2ed"] else tamper(message, reply)
    )
    leader = server(roster)
    result = leader.start(grid, model(), num_rounds=1)
    np.testing.assert_allclose(vector(result.arrays), moved_by([[open_shard]]), atol=2e-6)
    assert list(leader.records[0].dropped) == [victim], what
    assert list(leader.records[0].excluded) == [0]


STEPS = ["Invite", "Peers", "Delivery", "Alive", "Confirmations"]


@pytest.mark.parametrize("step", STEPS)
def test_a_client_may_die_at_any_step_of_the_tolerant_mode(federation, step):
    from f2ed.protocol.secagg.schemes import read_request

    grid, nodes, roster = federation(10, 2, signed={"mode": "dropout-tolerant"})
    victim = roster.assignment(0).shards[0][0]

    def die(message, reply):
        request = message.content["f2ed"].get("request")
        return None if request and type(read_request(request)).__name__ == step else reply

    nodes[victim].tamper = die
    nodes[victim].app = user_app()
    leader = server(roster, mode="dropout-tolerant", deadline=0.5, train_deadline=0.5)
    result = leader.start(grid, model(), num_rounds=1)
    uploaded = step in {"Alive", "Confirmations"}
    shards = [[client for client in shard if uploaded or client != victim] for shard in roster.assignment(0).shards]
    np.testing.assert_allclose(vector(result.arrays), moved_by([shards]), atol=2e-6)
    assert opened(leader, 0) == [0, 1]
    assert list(leader.records[0].dropped) == [victim]


def test_a_client_that_comes_back_joins_the_next_round(federation):
    grid, nodes, roster = federation()
    first, second = roster.assignment(0).shards
    nodes[first[0]].connected = False
    leader = server(roster, wait_for_nodes=0)
    come_back = lambda number, _: setattr(nodes[first[0]], "connected", number >= 1)  # noqa: E731
    result = leader.start(grid, model(), num_rounds=2, evaluate_fn=come_back)
    np.testing.assert_allclose(vector(result.arrays), moved_by([[second], [first, second]]), atol=4e-6)
    assert "not connected" in leader.records[0].dropped[first[0]]


def test_a_node_that_restarts_goes_on_with_its_keys(federation):
    grid, nodes, roster = federation()
    restart = lambda number, _: setattr(nodes[0], "state", RecordDict()) if number == 1 else None  # noqa: E731
    leader = server(roster)
    result = leader.start(grid, model(), num_rounds=2, evaluate_fn=restart)
    np.testing.assert_allclose(vector(result.arrays), moved_by([roster.assignment(0).shards] * 2), atol=4e-6)


def test_a_node_that_lost_its_state_makes_new_keys(federation, tmp_path):
    grid, _, roster = federation()
    mine, other = sorted(roster.assignment(0).shards, key=lambda shard: 0 not in shard)

    def lose(number, _):
        if number == 1:
            for path in (tmp_path / "client_0.state").iterdir():
                path.unlink()

    leader = server(roster)
    result = leader.start(grid, model(), num_rounds=3, evaluate_fn=lose)
    np.testing.assert_allclose(vector(result.arrays), moved_by([[mine, other], [other], [mine, other]]), atol=6e-6)
    assert "ask for new ones" in leader.records[1].dropped[0]


def test_a_node_outside_the_roster_takes_no_part_and_does_no_harm(federation, tmp_path):
    grid, _, roster = federation()
    (tmp_path / "elsewhere").mkdir()
    _, strange = real_roster(tmp_path / "elsewhere", 3, shards=1, name="others")
    own = strange[0] | {"f2ed-roster": str(tmp_path / "roster.json"), "f2ed-authority": str(tmp_path / "authority.pub")}
    grid.nodes[3] = Node(9, user_app(), own)
    grid.nodes[4] = Node(9, user_app(), strange[0])
    leader = server(roster)
    result = leader.start(grid, model(), num_rounds=1)
    np.testing.assert_allclose(vector(result.arrays), moved_by([roster.assignment(0).shards]), atol=2e-6)
    asked = [message for message in grid.sent if message.metadata.dst_node_id in {3, 4}]
    assert all("request" not in message.content["f2ed"] for message in asked)


def test_nobody_can_speak_for_a_client_without_its_key(federation):
    grid, nodes, roster = federation()
    answers = {}

    def listen(_message, reply):
        answers.setdefault("hello", reply_bytes(reply))
        return reply

    nodes[0].tamper = listen
    parrot = Node(9, user_app())
    parrot.tamper = lambda message, _: Message(reply_content(answers["hello"]), reply_to=message)
    grid.nodes[3] = parrot
    leader = server(roster)
    leader.start(grid, model(), num_rounds=1)
    assert opened(leader, 0) == [0, 1]
    assert parrot.received <= 3


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_clients_that_come_back_under_other_numbers_are_all_heard(federation, order):
    grid, nodes, roster = federation()
    lost = roster.assignment(0).shards[0][:2]

    def come_back(number, _):
        if number == 1:
            # The SuperLink has noticed that the first is gone, and still lists the second.
            nodes[lost[0]].connected = False
            nodes[lost[1]].tamper = silence
            for place, which in enumerate(order):
                client = lost[which]
                grid.nodes[place] = Node(client, user_app(), nodes[client].node_config)

    leader = server(roster)
    leader.start(grid, model(), num_rounds=2, evaluate_fn=come_back)
    assert leader.records[1].dropped == {}
    assert opened(leader, 1) == [0, 1]


def test_a_silent_stranger_does_not_keep_the_others_waiting(federation):
    grid, _, roster = federation()
    stranger = Node(9, user_app())
    stranger.tamper = silence
    grid.nodes[3] = stranger
    leader = server(roster, deadline=3600, train_deadline=3600)
    leader.start(grid, model(), num_rounds=1)
    assert stranger.received == 1
    assert opened(leader, 0) == [0, 1]


def test_flowers_own_arguments_are_understood(federation, caplog):
    grid, nodes, roster = federation()
    nodes[roster.assignment(0).shards[0][0]].tamper = lambda message, reply: (
        reply if len(message.content) == 1 else None
    )
    leader = server(roster, train_deadline=3600)
    with caplog.at_level("WARNING", logger="flwr"):
        leader.start(grid, model(), 1, 0.2, ConfigRecord({"lr": 0.1}), ConfigRecord({"batch_size": 1}), None)
    assert list(leader.records[0].dropped.values()) == ["late: no reply within 0.2 s"]
    assert grid.sent[-1].content["config"]["lr"] == 0.1
    assert "evaluate_config is not used" in caplog.text


def test_too_few_shards_skip_the_round_and_say_so(federation, caplog):
    grid, nodes, roster = federation()
    nodes[roster.assignment(0).shards[0][0]].tamper = lambda message, reply: (
        reply if "hello" in message.content["f2ed"] else None
    )
    leader = server(roster, min_shards=2, max_skipped=1)
    with pytest.raises(OutageError, match="round 1 was skipped 1 times in a row, the last time because 1 rows opened"):
        leader.start(grid, model(), num_rounds=1)
    assert leader.records[0].skipped == "1 rows opened, at least 2 are required"
    assert "round 1: SKIPPED, the model is unchanged: 1 rows opened, at least 2" in caplog.text
    assert "1 of 2 shards opened" in caplog.text


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"min_crowd": 4}, "hide each update among 3, fewer than min_crowd = 4"),
        ({"malicious": 1}, "can contaminate half"),
        ({"shards": 3}, "signed for 2"),
        ({"min_shards": 3}, "min_shards = 3, and the roster has 2 shards"),
        ({"schedule": "every-round"}, "signed for 'fixed'"),
        ({"secure": False}, "in the clear"),
    ],
)
def test_what_the_roster_does_not_carry_is_refused_before_anything_starts(federation, settings, words):
    _, _, roster = federation()
    with pytest.raises(ConfigError, match=words):
        server(roster, **settings)


def test_a_missing_guarantee_can_be_accepted_but_not_in_silence(federation, caplog):
    _, _, roster = federation()
    with caplog.at_level("WARNING", logger="flwr"):
        server(roster, malicious=1, min_shards=1, accept_no_guarantee=True)
    assert "NO GUARANTEE" in caplog.text


def test_the_filter_rejects_a_contaminated_shard(federation):
    grid, nodes, roster = federation(15, 5)
    liar = roster.assignment(0).shards[2][0]

    def poison(message, _context):
        weight = message.content["arrays"]["weight"]
        message.content["arrays"]["weight"] = type(weight)(weight.numpy() + 0.9)

    nodes[liar].app = user_app(fault=poison)
    leader = server(roster, estimator=FilterL2(contamination=0.2))
    result = leader.start(grid, model(), num_rounds=1)
    assert leader.records[0].weights[2] == 0
    assert np.abs(vector(result.arrays) - vector(model())).max() < 0.1
