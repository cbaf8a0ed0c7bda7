"""bfloat16 and float16 models over Flower: widened exactly on the way, rounded to the model's types when loaded."""

import io
import logging

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, Message, RecordDict
from flwr.clientapp import ClientApp

from f2ed.core.errors import ConfigError, OutageError
from f2ed.flower import load_arrays, protect, to_arrays
from tests.flower.fake_grid import FakeGrid, Node, server

torch = pytest.importorskip("torch")

CLIENTS = 8
NARROW = [torch.bfloat16, torch.float16, torch.float8_e4m3fn]


class Mixed(torch.nn.Module):
    """A model of several types, as mixed precision has them, with a 0-d parameter and a counter."""

    def __init__(self):
        super().__init__()
        self.body = torch.nn.Parameter(torch.linspace(-2, 2, 12).reshape(3, 4).to(torch.bfloat16))
        self.neck = torch.nn.Parameter(torch.linspace(-1, 1, 5).to(torch.float16))
        self.head = torch.nn.Parameter(torch.linspace(0, 1, 4))
        self.logit_scale = torch.nn.Parameter(torch.tensor(2.5, dtype=torch.bfloat16))
        self.register_buffer("count", torch.tensor(3))


@pytest.mark.parametrize("dtype", NARROW)
def test_every_value_of_a_narrow_type_comes_back_to_the_bit(dtype):
    size = 8 * torch.empty(0, dtype=dtype).element_size()
    codes = torch.arange(2**size, dtype=torch.int64).to(torch.uint8 if size == 8 else torch.uint16)
    values = codes.view(dtype)
    finite = values[values.float().isfinite()]
    arrays = to_arrays({"weight": finite})
    assert arrays["weight"].dtype == "float32"
    back = torch.as_tensor(arrays["weight"].numpy()).to(dtype)
    assert back.view(torch.uint8).equal(finite.contiguous().view(torch.uint8))


def test_a_model_of_several_types_is_loaded_as_it_was():
    model, other = Mixed(), Mixed()
    arrays = to_arrays(model.state_dict())
    kinds = {name: array.dtype for name, array in arrays.items()}
    assert kinds == dict.fromkeys(("body", "neck", "head", "logit_scale"), "float32") | {"count": "int64"}
    assert arrays["logit_scale"].shape == ()
    with torch.no_grad():
        for each in other.parameters():
            each.zero_()
    load_arrays(other, arrays)
    for name, value in model.state_dict().items():
        assert other.state_dict()[name].dtype == value.dtype
        assert other.state_dict()[name].equal(value)


def test_arrays_of_numpy_are_widened_too():
    arrays = to_arrays({"half": np.full(3, 0.5, np.float16), "double": np.ones(2), "scale": np.float16(2)})
    assert {name: array.dtype for name, array in arrays.items()} == {
        "half": "float32",
        "double": "float64",
        "scale": "float32",
    }


def test_the_bfloat16_of_ml_dtypes_is_widened():
    bfloat16 = pytest.importorskip("ml_dtypes").bfloat16
    given = ArrayRecord({"weight": Array(np.full(3, 1.001, np.float32))})
    arrays = to_arrays({"weight": np.full(3, 1.0078125, np.float32).astype(bfloat16)}, since=given)
    assert arrays["weight"].numpy().tolist() == [np.float32(1.001) + np.float32(0.0078125)] * 3


@pytest.mark.parametrize("strict", [True, False])
def test_a_value_beyond_the_range_of_the_model_is_refused_and_not_made_infinite(strict):
    model = Mixed()
    arrays = to_arrays(model.state_dict())
    arrays["neck"] = Array(np.array([0, 0, 70000, 0, 0], np.float32))
    with pytest.raises(ConfigError, match=r"the array 'neck' has values beyond the range of torch.float16"):
        load_arrays(model, arrays, strict=strict)
    assert model.neck.isfinite().all()


def test_an_infinity_that_was_sent_stays_one():
    model = torch.nn.Linear(1, 2).bfloat16()
    model.register_buffer("mask", torch.tensor([0.0, float("-inf")], dtype=torch.bfloat16))
    load_arrays(model, to_arrays(model.state_dict()))
    assert model.mask.tolist() == [0.0, float("-inf")]


def test_a_part_of_a_model_is_loaded_where_that_is_asked_for():
    model = Mixed()
    found = load_arrays(model, ArrayRecord({"head": Array(np.full(4, 7, np.float32))}), strict=False)
    assert sorted(found.missing_keys) == ["body", "count", "logit_scale", "neck"]
    assert model.head.tolist() == [7] * 4
    with pytest.raises(RuntimeError, match="Missing key"):
        load_arrays(model, ArrayRecord({"head": Array(np.full(4, 7, np.float32))}))


def test_a_model_in_place_of_its_state_is_refused():
    with pytest.raises(ConfigError, match=r"given a Mixed; give a mapping, such as model.state_dict\(\)"):
        to_arrays(Mixed())


def test_what_came_in_must_fit_what_was_trained():
    state = {"weight": torch.ones(3, dtype=torch.bfloat16)}
    with pytest.raises(ConfigError, match="an array 'weight' that did not come in"):
        to_arrays(state, since=ArrayRecord({}))
    with pytest.raises(ConfigError, match=r"'weight' has shape \(3,\); what came in has \(2,\)"):
        to_arrays(state, since=ArrayRecord({"weight": Array(np.ones(2, np.float32))}))


def test_rounding_when_a_model_is_loaded_does_not_count_as_training():
    given = ArrayRecord({"weight": Array(np.linspace(1, 2, 50, dtype=np.float32))})
    model = torch.nn.Module()
    model.weight = torch.nn.Parameter(torch.zeros(50, dtype=torch.bfloat16))
    load_arrays(model, given)
    assert to_arrays(model.state_dict(), since=given)["weight"].numpy().tobytes() == given["weight"].numpy().tobytes()
    assert to_arrays(model.state_dict())["weight"].numpy().tobytes() != given["weight"].numpy().tobytes()


def app(*, since):
    """Return an app with a bfloat16 model, of whose clients one in four changes anything: by the smallest step."""
    made = ClientApp(mods=[protect])

    @made.train()
    def train(message, context):
        given = message.content["arrays"]
        model = Mixed()
        load_arrays(model, given)
        if context.node_config["partition-id"] % 4 == 0:
            with torch.no_grad():
                model.logit_scale += 2**-6
        arrays = to_arrays(model.state_dict(), since=given if since else None)
        return Message(RecordDict({"arrays": arrays}), reply_to=message)

    return made


def trained(runs, rounds, **settings):
    """Return the parameter that is trained, after some rounds."""
    run_config = {"f2ed-roster": f"test:{CLIENTS}/2", "f2ed-rounding-seed": 1}
    nodes = [Node(each, runs, run_config=run_config) for each in range(CLIENTS)]
    leader = server(f"test:{CLIENTS}/2", accept_no_guarantee=True, **settings)
    initial = to_arrays(Mixed().state_dict())
    arrays = leader.start(grid=FakeGrid(nodes), initial_arrays=initial, num_rounds=rounds).arrays
    load_arrays(Mixed(), arrays)
    return float(arrays["logit_scale"].numpy())


@pytest.mark.usefixtures("simulated")
def test_a_bfloat16_model_is_trained_in_rounds():
    assert trained(app(since=True), 1) == pytest.approx(2.5 + 2**-8, abs=1e-5)


@pytest.mark.usefixtures("simulated")
def test_steps_below_the_precision_of_the_clients_add_up_on_the_server():
    # A mean step is a quarter of the smallest that a client can take, and rounds away when a client loads the model.
    assert trained(app(since=True), 4) == pytest.approx(2.5 + 4 * 2**-8, abs=1e-4)
    # Then all updates are zero, which is an error after so many rounds.
    assert trained(app(since=False), 4, max_skipped=4) == pytest.approx(2.5 + 2**-8, abs=1e-4)


@pytest.mark.usefixtures("simulated")
def test_an_app_that_gives_flower_bfloat16_is_told_what_to_use(caplog):
    made = ClientApp(mods=[protect])

    @made.train()
    def train(message, context):  # noqa: ARG001
        return Message(RecordDict({"arrays": ArrayRecord(Mixed().state_dict())}), reply_to=message)

    with pytest.raises(OutageError):
        trained(made, 1)
    assert "TypeError: Got unsupported ScalarType BFloat16" in caplog.text
    assert "make them with f2ed.flower.to_arrays(model.state_dict())" in caplog.text


def test_a_server_that_gives_flower_bfloat16_is_told_what_to_use():
    lines = io.StringIO()
    handler = logging.StreamHandler(lines)
    flower = logging.getLogger("flwr")
    flower.addHandler(handler)
    try:
        ArrayRecord(Mixed().state_dict())
    except TypeError as error:
        flower.error("ServerApp raised an exception", exc_info=error)
    finally:
        flower.removeHandler(handler)
    assert lines.getvalue().count("make them with f2ed.flower.to_arrays(model.state_dict())") == 1
