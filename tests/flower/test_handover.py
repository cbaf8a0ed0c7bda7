"""What a training function is handed: what was hashed, for every array that NumPy saves."""

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Message, RecordDict

from f2ed import ConfigError, OutageError
from f2ed.deployment.training_rules import Rule, TrainingRules
from f2ed.flower.arrays import moved, update_plan
from f2ed.flower.handover import arrays_of, clean_context, clean_message, kept_state, train_input
from f2ed.flower.wire import STATE
from tests.flower.fake_grid import FakeGrid, fingerprint, model, moved_by, opened, server, vector

ARRAYS = {
    "matrix": np.asfortranarray(np.ones((3, 2), np.float32)),
    "empty": np.zeros((0, 3), np.float32),
    "scalar": np.array(1, np.float32),
    "half": np.ones(3, np.float16),
    "flag": np.array([True]),
    "text": np.array(["a", "bc"]),
    "big": np.ones(2, ">i4"),
    "complex": np.ones(2, np.complex64),
}


@pytest.fixture
def given():
    arrays = ArrayRecord({name: Array(values) for name, values in ARRAYS.items()})
    return train_input(arrays, ConfigRecord({"server-round": 3, "layers": [1, 2]}))


def test_every_array_that_numpy_saves_passes(given):
    assert given.summary().plan().coordinates == 6 + 1 + 3
    for name, array in arrays_of(given).items():
        np.testing.assert_array_equal(array.numpy(), ARRAYS[name])


def test_what_training_does_to_its_message_does_not_reach_the_input(given):
    before = given.digest(bytes(32))
    message = clean_message(given)
    message.content["config"]["layers"].append(3)
    message.content["arrays"]["flag"].data = b""
    del message.content["arrays"]["half"]
    assert given.digest(bytes(32)) == before
    assert clean_message(given).content["config"]["layers"] == [1, 2]


def test_a_reply_to_the_message_can_be_made(given):
    message = clean_message(given)
    assert message.metadata.group_id == "3"
    assert Message(RecordDict(), reply_to=message).metadata.ttl > 10**5


def test_the_context_has_the_settings_and_nothing_else():
    state = RecordDict({"left": ConfigRecord({"a": 1})})
    context = clean_context(Context(7, 8, {"partition-id": 3}, state, {"lr": 0.1}, 9))
    assert vars(context) == vars(Context(0, 0, {"partition-id": 3}, RecordDict(), {"lr": 0.1}))


def test_settings_of_the_run_need_no_setting_of_the_server(federation):
    grid, nodes, roster = federation()
    for node in nodes:
        node.run_config = {"lr": 0.1, "name": "x"}
    result = server(roster).start(grid, model(), num_rounds=2, train_config=ConfigRecord({"lr": np.float64(0.5)}))
    np.testing.assert_allclose(vector(result.arrays), moved_by([roster.assignment(0).shards] * 2), atol=3e-6)


@pytest.mark.parametrize("mode", ["all-or-nothing", "dropout-tolerant"])
def test_a_client_with_other_settings_of_the_run_closes_its_shard_alone(federation, mode):
    grid, nodes, roster = federation(12, 2, min_crowd=6, signed={"mode": mode})
    other = roster.assignment(0).shards[0][0]
    nodes[other].run_config = {"lr": 0.0}
    leader = server(roster, mode=mode, min_shards=1)
    leader.start(grid, model(), num_rounds=1)
    assert opened(leader) == [1]
    assert set(leader.records[0].dropped) == {other}


@pytest.mark.parametrize("announced", ["to all alike", "to each its own"])
def test_a_tolerant_shard_does_not_open_a_victim_that_is_told_something_else(federation, announced):
    """The server tells the victim of another learning rate, with or without another digest in the invitation."""
    _, nodes, roster = federation(12, 2, min_crowd=3, signed={"mode": "dropout-tolerant"})
    victim = roster.assignment(0).shards[0][0]
    config = {"server-round": 1, "lr": 1.0}

    class LyingGrid(FakeGrid):
        def push_messages(self, messages):
            for message in messages:
                if self.nodes[message.metadata.dst_node_id].partition == victim and "model" in message.content["f2ed"]:
                    if announced == "to each its own":
                        message.content["f2ed"] = message.content["f2ed"].copy()
                        message.content["f2ed"]["model"] = fingerprint(model(), config)
                    if "config" in message.content:
                        message.content["config"] = ConfigRecord(config)
            return super().push_messages(messages)

    leader = server(roster, mode="dropout-tolerant", min_shards=1)
    leader.start(LyingGrid(nodes, 7), model(), num_rounds=1)
    (record,) = leader.records
    assert victim in record.dropped
    assert 0 in record.excluded or record.crowd == 5


def test_a_model_with_parameters_without_dimensions_is_trained(federation):
    """A temperature, or the logit scale of CLIP, is one number."""
    arrays = ArrayRecord({"scale": Array(np.array(1.5, np.float32)), "half": Array(np.array(2, np.float16)), **model()})
    step = np.concatenate([[0.25, 0.5], np.zeros(26)]).astype(np.float32)
    record = moved(arrays, step, update_plan(arrays, None, clip_value=1.0))
    assert (record["scale"].shape, record["scale"].dtype, record["scale"].numpy()) == ((), "float32", 1.75)
    assert (record["half"].shape, record["half"].dtype, record["half"].numpy()) == ((), "float16", 2.5)
    grid, _, roster = federation(extra=("scale", "half"))
    result = server(roster).start(grid, arrays, num_rounds=2)
    assert result.arrays["scale"].numpy() == pytest.approx(1.5 + 2 * 0.01, abs=1e-5)
    assert result.arrays["scale"].shape == ()


def test_the_number_of_the_round_is_the_strategys(federation):
    grid, _, roster = federation()
    with pytest.raises(ConfigError, match="train_config sets 'server-round'"):
        server(roster).start(grid, model(), train_config=ConfigRecord({"server-round": 7}))
    assert grid.sent == []


def test_a_second_record_of_arrays_is_refused_at_the_start(federation):
    grid, _, roster = federation()
    with pytest.raises(ConfigError, match="initial_arrays is a RecordDict; give one ArrayRecord"):
        server(roster).start(grid, RecordDict({"arrays": model(), "control": model()}))
    assert grid.sent == []


def test_a_second_record_of_arrays_in_a_reply_is_not_dropped_silently(federation, caplog):
    grid, _, roster = federation(reply={"control": model()})
    leader = server(roster)
    with pytest.raises(OutageError, match="nothing was opened"):
        leader.start(grid, model(), num_rounds=1)
    assert opened(leader) == []
    assert "holds 2 array records (arrays, control)" in caplog.text


@pytest.mark.parametrize(
    ("rules", "config", "why"),
    [
        (TrainingRules(), {"lr": 0.1}, "'lr' is not in the roster's rules"),
        (TrainingRules(settings=(Rule("lr", "float", low=0.0, high=0.5),)), {"lr": 0.6}, "the roster allows float"),
        (TrainingRules(layout=bytes(32)), {}, "a model of layout"),
    ],
)
def test_a_server_whose_requests_would_be_refused_does_not_start(federation, rules, config, why):
    grid, _, roster = federation(fields={"training": rules})
    with pytest.raises(ConfigError, match=f"the clients would refuse train_config or the model: .*{why}"):
        server(roster).start(grid, model(), train_config=ConfigRecord(config))
    assert grid.sent == []


def test_an_app_changes_its_own_part_of_the_state_alone():
    """The protocol's own record stays as it was, and none of it reaches the app."""
    ours, theirs = ConfigRecord({"round": 7}), ConfigRecord({"seen": 1})
    before = Context(1, 2, {}, RecordDict({STATE: ours, "theirs": theirs}), {})
    shown = clean_context(before, stateful=True)
    assert set(shown.state) == {"theirs"}
    shown.state["theirs"]["seen"] = 9  # by a training that fails later
    assert before.state["theirs"]["seen"] == 1
    shown.state[STATE] = ConfigRecord({"round": 0})
    shown.state["theirs"] = ConfigRecord({"seen": 2})
    assert dict(kept_state(before, shown)) == {STATE: ours, "theirs": ConfigRecord({"seen": 2})}
