"""Whole runs over a grid in this process: the server's side and the clients' side together."""

import os

import msgspec
import numpy as np
import pytest
from flwr.app import ConfigRecord, Error, Message, RecordDict

from f2ed import ConfigError, Encoding, FilterL2, Mean
from f2ed.deployment.keyfiles import read_private
from f2ed.deployment.roster import signed, write_roster
from f2ed.flower import F2ed, context
from f2ed.flower.wire import reply_bytes, reply_content
from f2ed.guarantees import exposure
from f2ed.protocol.aggregation import Task, shard_means
from f2ed.protocol.dp import dp_epsilon
from f2ed.protocol.sharding import Batches, EveryRound
from f2ed.simulation.transport import MemoryExchange, SimulatedClients
from tests.flower.fake_grid import FakeGrid, Node, change, model, real_roster, user_app

MODES = ["all-or-nothing", "dropout-tolerant"]


@pytest.fixture
def simulated(monkeypatch):
    monkeypatch.setattr(context, "_in_simulation", lambda: True)


@pytest.fixture
def federation(tmp_path):
    """Return a function that makes a grid of real nodes."""

    def make(count=6, shards=2, *, run_id=7, min_crowd=3, **app):
        if not (tmp_path / "roster.json").exists():
            make.roster, make.settings = real_roster(tmp_path, count, shards=shards, min_crowd=min_crowd)
        nodes = [Node(client, user_app(**app), make.settings[client]) for client in range(count)]
        return FakeGrid(nodes, run_id), nodes, make.roster

    return make


def server(roster, **settings):
    return F2ed(
        **{"roster": roster, "estimator": Mean(), "min_crowd": 3, "deadline": 0.2, "train_deadline": 0.2} | settings
    )


def vector(arrays):
    return np.concatenate([arrays["weight"].numpy().ravel(), arrays["bias"].numpy().ravel()])


def moved_by(shards_of_each_round):
    """Return where the model is after rounds in which these shards opened."""
    place = vector(model())
    for round_, shards in enumerate(shards_of_each_round, 1):
        means = [np.mean([change(client, round_) for client in shard], axis=0) for shard in shards]
        if means:
            place = place + np.mean(means, axis=0)
    return place


def silence(_message, _reply):
    return None


@pytest.mark.parametrize("mode", MODES)
def test_the_model_moves_by_the_mean_of_all_clients(federation, mode):
    grid, _, roster = federation()
    result = server(roster, mode=mode).start(grid, model(), num_rounds=3)
    shards = roster.plan(0).shards
    np.testing.assert_allclose(vector(result.arrays), moved_by([shards] * 3), atol=3e-6)


def test_integers_of_the_model_stay_what_they_are(federation):
    grid, _, roster = federation()
    result = server(roster).start(grid, model(), num_rounds=1)
    assert result.arrays["count"].numpy() == [7]
    assert result.arrays["weight"].numpy().dtype == np.float32


def test_after_set_up_a_round_is_one_exchange(federation):
    grid, _, roster = federation()
    server(roster).start(grid, model(), num_rounds=1)
    first = grid.pushes
    grid, _, roster = federation(run_id=8)
    server(roster).start(grid, model(), num_rounds=6)
    assert grid.pushes == first + 5


def test_keys_are_changed_after_as_many_rounds_as_were_set(federation):
    grid, _, roster = federation()
    server(roster, key_rounds=2).start(grid, model(), num_rounds=4)
    # Who are you; keys and upload, upload; keys and upload, upload.
    assert grid.pushes == 1 + 3 + 3


@pytest.mark.usefixtures("simulated")
@pytest.mark.parametrize("mode", MODES)
def test_masked_equals_plain_to_the_bit(mode):
    def run(*, secure, run_id):
        run_config = {"f2ed-roster": "test:8/2", "f2ed-rounding-seed": 5}
        grid = FakeGrid([Node(client, user_app(), run_config=run_config) for client in range(8)], run_id)
        leader = server("test:8/2", mode=mode, secure=secure, estimator=FilterL2(contamination=0.4), malicious=0)
        return vector(leader.start(grid, model(), num_rounds=3).arrays).tobytes()

    assert run(secure=True, run_id=1) == run(secure=False, run_id=2)


@pytest.mark.usefixtures("simulated")
def test_flower_gives_the_shard_means_of_a_run_in_one_process_to_the_bit():
    count, seed = 8, 5
    run_config = {"f2ed-roster": "test:8/2", "f2ed-rounding-seed": seed}
    grid = FakeGrid([Node(client, user_app(), run_config=run_config) for client in range(count)])
    leader = server("test:8/2")
    result = leader.start(grid, model(), num_rounds=1)

    plan = leader.roster.plan(0)
    clients = SimulatedClients(count, "job", shard_of=lambda client, _: plan.shards[plan.shard_of(client)])
    before = vector(model())
    updates = np.stack([(before + change(client, 1)) - before for client in range(count)])
    exchange = MemoryExchange(
        clients,
        updates,
        model=bytes(32),
        seed=seed,
        round_=0,
    )
    task = Task(
        job="job", round=0, model=bytes(32), coordinates=26, encoding=Encoding(1.0), roster=clients.roster, epoch=0
    )
    means, _ = shard_means(exchange, plan, task)
    expected = before + Mean()(means).mean
    assert vector(result.arrays).tobytes() == expected.astype(np.float32).tobytes()


@pytest.mark.parametrize("mode", MODES)
def test_no_plain_update_is_in_any_message(federation, mode):
    seen = []
    grid, _, roster = federation(seen=seen)
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
    ("what", "spoil"),
    [
        ("silent", silence),
        ("an error", lambda message, _: Message(Error(code=3, reason="broken"), reply_to=message)),
        ("garbage", lambda message, _: Message(reply_content(os.urandom(200)), reply_to=message)),
        ("nothing", lambda message, _: Message(RecordDict({}), reply_to=message)),
        ("plain", lambda message, _: Message(RecordDict({"arrays": model()}), reply_to=message)),
        ("settings", lambda message, _: Message(RecordDict({"f2ed": ConfigRecord({"reply": b"x"})}), reply_to=message)),
    ],
)
def test_a_client_that_fails_closes_its_own_shard_and_no_other(federation, what, spoil):
    grid, nodes, roster = federation()
    bad, open_shard = roster.plan(0).shards
    victim = bad[0]
    nodes[victim].spoil = lambda message, reply: reply if "hello" in message.content["f2ed"] else spoil(message, reply)
    leader = server(roster)
    result = leader.start(grid, model(), num_rounds=1)
    np.testing.assert_allclose(vector(result.arrays), moved_by([[open_shard]]), atol=2e-6)
    assert list(leader.reports[0].dropped) == [victim], what
    assert list(leader.reports[0].missing) == [0]


STEPS = ["Invite", "Peers", "Delivery", "Alive", "Confirmations"]


@pytest.mark.parametrize("step", STEPS)
def test_a_client_may_die_at_any_step_of_the_tolerant_mode(federation, step):
    from f2ed.protocol.secagg.schemes import read_request

    grid, nodes, roster = federation(10, 2)
    victim = roster.plan(0).shards[0][0]

    def die(message, reply):
        request = message.content["f2ed"].get("request")
        return None if request and type(read_request(request)).__name__ == step else reply

    nodes[victim].spoil = die
    nodes[victim].app = user_app()
    leader = server(roster, mode="dropout-tolerant", deadline=0.5, train_deadline=0.5)
    result = leader.start(grid, model(), num_rounds=1)
    uploaded = step in {"Alive", "Confirmations"}
    shards = [[client for client in shard if uploaded or client != victim] for shard in roster.plan(0).shards]
    np.testing.assert_allclose(vector(result.arrays), moved_by([shards]), atol=2e-6)
    assert leader.reports[0].opened == (0, 1)
    assert list(leader.reports[0].dropped) == [victim]


def test_a_client_that_comes_back_joins_the_next_round(federation):
    grid, nodes, roster = federation()
    first, second = roster.plan(0).shards
    nodes[first[0]].connected = False
    leader = server(roster, wait_for_nodes=0)
    come_back = lambda number, _: setattr(nodes[first[0]], "connected", number >= 1)  # noqa: E731
    result = leader.start(grid, model(), num_rounds=2, evaluate_fn=come_back)
    np.testing.assert_allclose(vector(result.arrays), moved_by([[second], [first, second]]), atol=4e-6)
    assert "not connected" in leader.reports[0].dropped[first[0]]


def test_a_node_that_restarts_goes_on_with_its_keys(federation):
    grid, nodes, roster = federation()
    restart = lambda number, _: setattr(nodes[0], "state", RecordDict()) if number == 1 else None  # noqa: E731
    leader = server(roster)
    result = leader.start(grid, model(), num_rounds=2, evaluate_fn=restart)
    np.testing.assert_allclose(vector(result.arrays), moved_by([roster.plan(0).shards] * 2), atol=4e-6)


def test_a_node_that_lost_its_state_makes_new_keys(federation, tmp_path):
    grid, _, roster = federation()
    mine, other = sorted(roster.plan(0).shards, key=lambda shard: 0 not in shard)

    def lose(number, _):
        if number == 1:
            for path in (tmp_path / "client_0.state").iterdir():
                path.unlink()

    leader = server(roster)
    result = leader.start(grid, model(), num_rounds=3, evaluate_fn=lose)
    np.testing.assert_allclose(vector(result.arrays), moved_by([[mine, other], [other], [mine, other]]), atol=6e-6)
    assert "ask for it first" in leader.reports[1].dropped[0]


def test_a_node_outside_the_roster_takes_no_part_and_does_no_harm(federation, tmp_path):
    grid, _, roster = federation()
    (tmp_path / "elsewhere").mkdir()
    _, strange = real_roster(tmp_path / "elsewhere", 1, shards=1, min_crowd=1, name="others")
    own = strange[0] | {"f2ed-roster": str(tmp_path / "roster.json"), "f2ed-authority": str(tmp_path / "authority.pub")}
    grid.nodes[3] = Node(9, user_app(), own)
    grid.nodes[4] = Node(9, user_app(), strange[0])
    leader = server(roster)
    result = leader.start(grid, model(), num_rounds=1)
    np.testing.assert_allclose(vector(result.arrays), moved_by([roster.plan(0).shards]), atol=2e-6)
    asked = [message for message in grid.sent if message.metadata.dst_node_id in {3, 4}]
    assert all("request" not in message.content["f2ed"] for message in asked)


def test_nobody_can_speak_for_a_client_without_its_key(federation):
    grid, nodes, roster = federation()
    answers = {}

    def listen(_message, reply):
        answers.setdefault("hello", reply_bytes(reply))
        return reply

    nodes[0].spoil = listen
    parrot = Node(9, user_app())
    parrot.spoil = lambda message, _: Message(reply_content(answers["hello"]), reply_to=message)
    grid.nodes[3] = parrot
    leader = server(roster)
    leader.start(grid, model(), num_rounds=1)
    assert leader.reports[0].opened == (0, 1)
    assert parrot.received <= 3


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_clients_that_come_back_under_other_numbers_are_all_heard(federation, order):
    grid, nodes, roster = federation()
    lost = roster.plan(0).shards[0][:2]

    def come_back(number, _):
        if number == 1:
            # The SuperLink has noticed that the first is gone, and still lists the second.
            nodes[lost[0]].connected = False
            nodes[lost[1]].spoil = silence
            for place, which in enumerate(order):
                client = lost[which]
                grid.nodes[place] = Node(client, user_app(), nodes[client].node_config)

    leader = server(roster)
    leader.start(grid, model(), num_rounds=2, evaluate_fn=come_back)
    assert leader.reports[1].dropped == {}
    assert leader.reports[1].opened == (0, 1)


def test_a_silent_stranger_does_not_keep_the_others_waiting(federation):
    grid, _, roster = federation()
    stranger = Node(9, user_app())
    stranger.spoil = silence
    grid.nodes[3] = stranger
    leader = server(roster, deadline=3600, train_deadline=3600)
    leader.start(grid, model(), num_rounds=1)
    assert stranger.received == 1
    assert leader.reports[0].opened == (0, 1)


def test_flowers_own_arguments_are_understood(federation, caplog):
    grid, nodes, roster = federation()
    nodes[roster.plan(0).shards[0][0]].spoil = lambda message, reply: reply if len(message.content) == 1 else None
    leader = server(roster, train_deadline=3600)
    with caplog.at_level("WARNING", logger="flwr"):
        leader.start(grid, model(), 1, 0.2, ConfigRecord({"lr": 0.1}), ConfigRecord({"batch_size": 1}), None)
    assert list(leader.reports[0].dropped.values()) == ["late: no reply within 0.2 s"]
    assert grid.sent[-1].content["config"]["lr"] == 0.1
    assert "evaluate_config is not used" in caplog.text


def test_too_few_shards_skip_the_round_and_say_so(federation):
    grid, nodes, roster = federation()
    nodes[roster.plan(0).shards[0][0]].connected = False
    leader = server(roster, min_shards=2, wait_for_nodes=0)
    result = leader.start(grid, model(), num_rounds=1)
    assert vector(result.arrays).tobytes() == vector(model()).tobytes()
    assert not leader.reports[0].done
    assert "SKIPPED" in leader.reports[0].line()
    assert "1 of 2 shards opened, and it takes 2" in leader.reports[0].line()


def test_a_restarted_server_goes_on_where_it_was(federation, tmp_path):
    path = tmp_path / "model.checkpoint"

    def die(number, _):
        if number == 2:
            raise KeyboardInterrupt

    grid, _, roster = federation(run_id=1)
    with pytest.raises(KeyboardInterrupt):
        server(roster, checkpoint=path).start(grid, model(), num_rounds=4, evaluate_fn=die)
    grid, _, roster = federation(run_id=2)
    leader = server(roster, checkpoint=path)
    result = leader.start(grid, model(), num_rounds=4)
    assert [each.round for each in leader.reports] == [3, 4]
    np.testing.assert_allclose(vector(result.arrays), moved_by([roster.plan(0).shards] * 4), atol=8e-6)


def test_a_checkpoint_of_another_model_is_refused(federation, tmp_path):
    grid, _, roster = federation()
    path = tmp_path / "model.checkpoint"
    server(roster, checkpoint=path).start(grid, model(), num_rounds=1)
    grid, _, roster = federation(run_id=2)
    with pytest.raises(ConfigError, match="another model"):
        server(roster, checkpoint=path).start(grid, model(size=5), num_rounds=2)


def test_every_round_leaves_a_line_of_audit(federation, tmp_path):
    grid, _, roster = federation()
    path = tmp_path / "audit.jsonl"
    server(roster, audit=path).start(grid, model(), num_rounds=2)
    lines = [msgspec.json.decode(line) for line in path.read_bytes().splitlines()]
    assert [line["round"] for line in lines] == [1, 2]
    assert all(line["crowd"] == 3 and line["secret"] and line["done"] for line in lines)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"min_crowd": 4}, "hide each among 3, fewer than the 4"),
        ({"malicious": 1}, "can spoil half"),
        ({"shards": 3}, "signed for 2"),
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


def test_the_filter_does_not_believe_a_spoilt_shard(federation):
    grid, nodes, roster = federation(15, 5)
    liar = roster.plan(0).shards[2][0]

    def poison(message, _context):
        weight = message.content["arrays"]["weight"]
        message.content["arrays"]["weight"] = type(weight)(weight.numpy() + 0.9)

    nodes[liar].app = user_app(fault=poison)
    leader = server(roster, estimator=FilterL2(contamination=0.2))
    result = leader.start(grid, model(), num_rounds=1)
    assert leader.reports[0].weights[2] == 0
    assert np.abs(vector(result.arrays) - vector(model())).max() < 0.1


def with_schedule(tmp_path, roster, schedule, shards):
    """Sign the roster of the tests anew; its nodes read it from the file."""
    authority = read_private(tmp_path / "authority.key")
    changed = signed(roster, authority, shards=shards, min_crowd=2, schedule=schedule, seed=bytes(32))
    write_roster(tmp_path / "roster.json", changed)
    return changed


def what_deals_give_away(roster, rounds):
    return exposure(len(roster.clients), [roster.plan(turn).shards for turn in range(rounds)])


def test_a_schedule_that_exposes_clients_is_warned_of_at_the_start_and_in_its_rounds(federation, tmp_path, caplog):
    grid, _, roster = federation(count=6)
    roster = with_schedule(tmp_path, roster, EveryRound(), 2)
    leader = server(roster)
    leader.start(grid, model(), num_rounds=12)
    assert "determine all 6 clients individually" in caplog.text
    true, last = what_deals_give_away(roster, 12), leader.reports[-1]
    assert tuple(each.equations for each in leader.reports) == true.ranks
    assert (last.exposed, last.exposed_since) == (true.exposed, true.first)
    assert "GIVE AWAY 5 CLIENTS" in msgspec.structs.replace(last, exposed=5).line()


def test_with_fixed_shards_nobody_is_given_away(federation, caplog):
    grid, _, roster = federation(count=6)
    leader = server(roster)
    leader.start(grid, model(), num_rounds=4)
    assert "determine no single client" in caplog.text
    assert {(each.equations, each.exposed, each.exposed_since) for each in leader.reports} == {(2, 0, None)}
    assert "GIVE AWAY" not in leader.reports[-1].line()


def test_batches_stay_together_in_a_deployment(federation, tmp_path):
    grid, _, roster = federation(count=8)
    roster = with_schedule(tmp_path, roster, Batches(2), 2)
    leader = server(roster, schedule="batches")
    result = leader.start(grid, model(), num_rounds=8)
    np.testing.assert_allclose(
        vector(result.arrays), moved_by([roster.plan(turn).shards for turn in range(8)]), atol=2e-5
    )
    assert tuple(each.equations for each in leader.reports) == what_deals_give_away(roster, 8).ranks
    assert leader.reports[-1].exposed == 0


def test_rounds_before_a_checkpoint_count_for_the_meter(federation, tmp_path):
    path = tmp_path / "model.checkpoint"
    grid, _, roster = federation(count=6, run_id=1)
    roster = with_schedule(tmp_path, roster, EveryRound(), 2)
    server(roster, checkpoint=path).start(grid, model(), num_rounds=3)
    grid, _, _ = federation(count=6, run_id=2)
    leader = server(roster, checkpoint=path)
    leader.start(grid, model(), num_rounds=4)
    assert leader.reports[0].equations == what_deals_give_away(roster, 4).ranks[-1]


@pytest.mark.usefixtures("simulated")
@pytest.mark.parametrize("mode", MODES)
def test_with_noise_masked_equals_plain_to_the_bit(mode):
    def run(*, secure, run_id):
        run_config = {"f2ed-roster": "test:8/2", "f2ed-rounding-seed": 5}
        grid = FakeGrid([Node(client, user_app(), run_config=run_config) for client in range(8)], run_id)
        leader = server("test:8/2", mode=mode, secure=secure, clip_norm=0.1, noise_multiplier=1.0)
        return vector(leader.start(grid, model(), num_rounds=2).arrays).tobytes()

    assert run(secure=True, run_id=1) == run(secure=False, run_id=2)


def test_noise_is_new_in_every_run_and_of_the_stated_size(federation):
    steps = []
    for run_id in (1, 2):
        grid, _, roster = federation(run_id=run_id)
        result = server(roster, clip_norm=0.1, noise_multiplier=1.0).start(grid, model(), num_rounds=1)
        steps.append(vector(result.arrays) - moved_by([roster.plan(0).shards]))
    assert not np.array_equal(*steps)
    # Two shards of three: 0.1 · √2 / 6 in each of 2 x 26 coordinates; half of it is 5 standard errors away.
    assert np.std(steps) == pytest.approx(0.1 * 2**0.5 / 6, rel=0.5)


def test_epsilon_is_counted_per_client_and_goes_on_after_a_restart(federation, tmp_path):
    settings = {
        "clip_norm": 0.1,
        "noise_multiplier": 2.0,
        "delta": 1e-4,
        "checkpoint": tmp_path / "model.checkpoint",
    }
    grid, nodes, roster = federation()
    first = server(roster, audit=tmp_path / "audit.jsonl", **settings)
    first.start(grid, model(), num_rounds=1)
    assert list(first.reports[0].epsilon.values()) == pytest.approx([dp_epsilon(1 / 8, 1e-4)] * 6)
    assert f"epsilon at most {dp_epsilon(1 / 8, 1e-4):.3g};" in first.reports[0].line()
    grid, nodes, roster = federation(run_id=8)
    gone = roster.plan(0).shards[0][0]
    nodes[gone].spoil = silence
    again = server(roster, **settings, min_shards=1)
    again.start(grid, model(), num_rounds=2)
    told = again.reports[-1].epsilon
    for shard, openings in zip(roster.plan(0).shards, (1, 2), strict=True):
        assert [told[client] for client in shard] == pytest.approx([dp_epsilon(openings / 8, 1e-4)] * 3)
    line = msgspec.json.decode((tmp_path / "audit.jsonl").read_bytes().splitlines()[0])
    assert line["epsilon"]["0"] == pytest.approx(dp_epsilon(1 / 8, 1e-4))


@pytest.mark.parametrize(("stated", "opened"), [(None, 0), (0.5, 0), (1.0, 2), (2.0, 2)])
def test_nodes_refuse_less_noise_than_they_ask_for(federation, stated, opened):
    grid, nodes, roster = federation()
    for node in nodes:
        node.node_config["f2ed-noise-multiplier"] = 1.0
    leader = server(roster, clip_norm=0.1, noise_multiplier=stated)
    leader.start(grid, model(), num_rounds=1)
    assert len(leader.reports[0].opened) == opened
    if not opened:
        assert "this client demands 1" in next(iter(leader.reports[0].dropped.values()))


def test_a_node_with_a_noise_that_is_no_number_says_so(federation):
    grid, nodes, roster = federation()
    nodes[0].node_config["f2ed-noise-multiplier"] = "much"
    leader = server(roster, min_shards=1)
    leader.start(grid, model(), num_rounds=1)
    assert len(leader.reports[0].opened) == 1


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"noise_multiplier": 1.0}, "noise without an L2 clip"),
        ({"noise_multiplier": -1.0, "clip_norm": 1.0}, "noise multiplier"),
    ],
)
def test_noise_that_cannot_work_is_refused_before_anything_starts(federation, settings, why):
    _, _, roster = federation()
    with pytest.raises(ConfigError, match=why):
        server(roster, **settings)
