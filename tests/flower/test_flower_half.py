"""Half-precision models: computed in float32, returned in their own type; bfloat16 is refused by name."""

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, Message, RecordDict
from flwr.clientapp import ClientApp

from f2ed.core.errors import ConfigError
from f2ed.deployment.array_header import NUMPY
from f2ed.flower import protect
from f2ed.flower.arrays import moved, update, update_plan
from tests.flower.fake_grid import FakeGrid, Node, server

CLIENTS = 8


def arrays(half):
    """Return a model with arrays of half, or of single, precision, with the same values."""
    kind = np.float16 if half else np.float32
    return {
        "weight": (np.arange(24, dtype=np.float32).reshape(4, 6) / 8).astype(kind),
        "logit_scale": np.array(2.5, kind),
        "bias": np.ones(3, np.float32),
        "empty": np.zeros((0, 4), kind),
    }


def step(client, round_, shape):
    """Return a change that both types hold exactly."""
    return np.random.default_rng([client, round_]).integers(-8, 9, shape).astype(np.float32) / 64


def app():
    made = ClientApp(mods=[protect])

    @made.train()
    def train(message, context):
        round_, client = message.content["config"]["server-round"], context.node_config["partition-id"]
        before = {name: array.numpy() for name, array in message.content["arrays"].items()}
        after = {name: np.asarray(v + step(client, round_, v.shape), v.dtype) for name, v in before.items()}
        return Message(RecordDict({"arrays": ArrayRecord({k: Array(v) for k, v in after.items()})}), reply_to=message)

    return made


def trained(half):
    nodes = [
        Node(each, app(), run_config={"f2ed-roster": f"test:{CLIENTS}/2", "f2ed-rounding-seed": 1})
        for each in range(CLIENTS)
    ]
    leader = server(f"test:{CLIENTS}/2", accept_no_guarantee=True)
    initial = ArrayRecord({name: Array(values) for name, values in arrays(half).items()})
    result = leader.start(grid=FakeGrid(nodes), initial_arrays=initial, num_rounds=1)
    return {name: array.numpy() for name, array in result.arrays.items()}


@pytest.mark.usefixtures("simulated")
def test_a_half_precision_model_is_the_single_precision_one_rounded():
    half, single = trained(half=True), trained(half=False)
    for name, values in half.items():
        assert (values.dtype, values.shape) == (arrays(half=True)[name].dtype, arrays(half=True)[name].shape)
        assert values.tobytes() == single[name].astype(values.dtype).tobytes()
    assert half["weight"].tobytes() != arrays(half=True)["weight"].tobytes()


def test_an_update_is_computed_in_single_precision():
    before = ArrayRecord({"weight": Array(np.full(3, 1024, np.float16)), "bias": Array(np.zeros(2, np.float32))})
    after = ArrayRecord({"weight": Array(np.full(3, 1025, np.float16)), "bias": Array(np.full(2, 1e-6, np.float32))})
    found = update(before, after, update_plan(before, None, clip_value=1.0))
    assert found.dtype == np.float32
    assert found.tolist() == pytest.approx([1, 1, 1, 1e-6, 1e-6])


def test_a_step_beyond_the_range_of_the_type_is_refused():
    model = ArrayRecord({"weight": Array(np.full(3, 65000, np.float16))})
    plan = update_plan(model, None, clip_value=1.0)
    with pytest.raises(ConfigError, match=r"takes 'weight' beyond the range of float16, which ends at 65504"):
        moved(model, np.full(3, 1000, np.float32), plan)


@pytest.mark.usefixtures("simulated")
def test_bfloat16_is_refused_by_name_at_the_start():
    model = ArrayRecord({"weight": Array("bfloat16", (2,), NUMPY, Array(np.zeros(2, "V2")).data)})
    grid = FakeGrid([])
    with pytest.raises(
        ConfigError, match=r"the array 'weight' is bfloat16, .* f2ed.flower.to_arrays, which sends it as float32"
    ):
        server("test:8/2", accept_no_guarantee=True).start(grid=grid, initial_arrays=model, num_rounds=1)
    assert grid.sent == []


def test_bfloat16_in_a_trained_model_is_refused_by_name():
    before = ArrayRecord({"weight": Array(np.zeros(2, np.float32))})
    after = ArrayRecord({"weight": Array("bfloat16", (2,), NUMPY, Array(np.zeros(2, "V2")).data)})
    with pytest.raises(ConfigError, match=r"'weight' is of type bfloat16; .* make it with f2ed.flower.to_arrays"):
        update(before, after, update_plan(before, None, clip_value=1.0))


def test_flower_itself_makes_no_array_of_bfloat16():
    torch = pytest.importorskip("torch")
    with pytest.raises(TypeError, match="BFloat16"):
        ArrayRecord({"weight": torch.ones(2, dtype=torch.bfloat16)})
