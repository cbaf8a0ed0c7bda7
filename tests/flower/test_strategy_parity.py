"""Simulation and deployment move the model by the same bits, for every estimator and across a restart of the server.

Both drivers get the same updates and the same assignment: a simulation whose clients do not train, and the strategy
over a grid in this process with the protocol's own clients. In between, the server is replaced by one that knows
nothing but the checkpoint.
"""

import msgspec
import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, Message, RecordDict
from flwr.clientapp import ClientApp

from f2ed import ConfigError
from f2ed.deployment.identity import roster_from
from f2ed.estimators import Bucketing, CenteredClipping, Mean, Median, RootVeto
from f2ed.flower import F2ed, checkpoint, protect
from f2ed.protocol.aggregation import StepState
from tests.estimators.examples import ALL, EXTRA, name
from tests.flower.fake_grid import FakeGrid, Node
from tests.simulation.small_run import SMALL

torch = pytest.importorskip("torch")

CLIENTS, SHARDS, SEED = 33, 11, 5
ROSTER = f"test:{CLIENTS}/{SHARDS}"
BEFORE, AFTER = 2, 4
"""Rounds before and after the restart."""

pytestmark = pytest.mark.usefixtures("simulated")


def change(client, round_, size):
    return np.random.default_rng([client, round_]).normal(0.05, 0.02, size).astype(np.float32)


def start():
    """Return a simulation that stands still, and its first model as Flower's arrays."""
    from f2ed.simulation import Simulation, experiment

    settings = SMALL | {"clients": CLIENTS, "shards": SHARDS, "rounds": AFTER, "seed": SEED, "malicious": 0}
    return Simulation(experiment(settings), workers=1)


def as_arrays(simulation, vector):
    sizes = simulation._server_step.tensors
    pieces = np.split(vector, np.cumsum(sizes)[:-1])
    return ArrayRecord({f"tensor_{place}": Array(piece) for place, piece in enumerate(pieces)})


def flat(arrays):
    return np.concatenate([array.numpy() for array in arrays.values()])


@pytest.fixture(scope="module")
def simulation():
    return start()


def simulated_models(simulation, estimator):
    """Return the model after each round of a simulation."""
    roster = roster_from(ROSTER)
    simulation._assignments._assign = lambda _epoch: roster.assignment(0)
    simulation._assignments._known = None

    def local_updates(state, _shards, _watch):
        model = state.model.numpy()
        moved = [model + change(client, state.round + 1, len(model)) for client in range(CLIENTS)]
        return torch.from_numpy(np.stack([after - model for after in moved])), None

    simulation._local_updates = local_updates
    simulation._root = lambda state: torch.from_numpy(
        (model := state.model.numpy()) + change(CLIENTS, state.round + 1, len(model)) - model
    )
    step = simulation._server_step
    simulation._server_step = type(step)(estimator, tensors=step.tensors, seed=step.seed)
    models, state = [], simulation.start()
    for _ in range(AFTER):
        state, record = simulation.step(state)
        assert record.skipped is None
        models.append(state.model.numpy().tobytes())
    return models


def trained(before, client, round_):
    model = flat(before)
    after = model + change(client, round_, len(model))
    pieces = np.split(after, np.cumsum([each.numpy().size for each in before.values()])[:-1])
    return ArrayRecord({key: Array(piece) for key, piece in zip(before, pieces, strict=True)})


def train(message, context):
    before, round_ = message.content["arrays"], message.content["config"]["server-round"]
    arrays = trained(before, context.node_config["partition-id"], round_)
    return Message(RecordDict({"arrays": arrays}), reply_to=message)


def lead(first, checkpoint, estimator, *, rounds, run_id, **settings):
    """Lead rounds over a grid in this process; return the model after each."""
    app = ClientApp(mods=[protect])
    app.train()(train)
    run_config = {"f2ed-roster": ROSTER, "f2ed-rounding-seed": SEED}
    grid = FakeGrid([Node(client, app, run_config=run_config) for client in range(CLIENTS)], run_id)
    root_fn = lambda number, arrays: trained(arrays, CLIENTS, number)  # noqa: E731
    given = {"seed": SEED, "malicious": 0, "root_fn": root_fn} | settings
    server = F2ed(roster=ROSTER, estimator=estimator, min_crowd=3, checkpoint=checkpoint, **given)
    models = {}
    server.start(
        grid, first, num_rounds=rounds, evaluate_fn=lambda number, arrays: models.update({number: flat(arrays)})
    )
    assert [record.skipped for record in server.records] == [None] * len(server.records)
    return models


@pytest.mark.parametrize("estimator", ALL + EXTRA, ids=name)
def test_simulation_and_deployment_give_the_same_bits(simulation, tmp_path, estimator):
    first = as_arrays(simulation, simulation.start().model.numpy())
    path = tmp_path / "model.checkpoint"
    models = lead(first, path, estimator, rounds=BEFORE, run_id=1)
    models |= lead(first, path, estimator, rounds=AFTER, run_id=2)
    assert [models[number].tobytes() for number in range(1, AFTER + 1)] == simulated_models(simulation, estimator)
    assert models[1].tobytes() != models[AFTER].tobytes()


@pytest.mark.parametrize(
    ("estimator", "lost"),
    [
        (CenteredClipping(radius=0.1), {"step": StepState()}),
        (Bucketing(2, Median()), {"seed": SEED + 1}),
    ],
)
def test_a_restart_that_lost_the_state_would_show(simulation, tmp_path, estimator, lost):
    first = as_arrays(simulation, simulation.start().model.numpy())
    path = tmp_path / "model.checkpoint"
    lead(first, path, estimator, rounds=BEFORE, run_id=1)
    whole = checkpoint.load(path, roster="test", like=first)
    checkpoint.save(path, whole._replace(**lost), roster="test")
    models = lead(first, path, estimator, rounds=BEFORE + 1, run_id=2, seed=None)
    assert models[BEFORE + 1].tobytes() != simulated_models(simulation, estimator)[BEFORE]


def test_a_rule_that_needs_a_trusted_update_is_refused_without_one():
    with pytest.raises(ConfigError, match="Root veto needs a trusted update; pass root_fn"):
        F2ed(roster=ROSTER, estimator=RootVeto(Mean()), min_crowd=3)


def test_without_a_seed_the_draws_are_fresh_and_survive_a_restart(simulation, tmp_path):
    first = as_arrays(simulation, simulation.start().model.numpy())
    seeds = []
    for run in ("one", "other"):
        path = tmp_path / run
        lead(first, path, Mean(), rounds=1, run_id=1, seed=None)
        seeds.append(checkpoint.load(path, roster="test", like=first).seed)
        lead(first, path, Mean(), rounds=2, run_id=2, seed=None)
        assert checkpoint.load(path, roster="test", like=first).seed == seeds[-1]
    assert len(set(seeds)) == 2
    assert min(seeds) > 2**128


def test_a_checkpoint_with_another_seed_is_refused(simulation, tmp_path):
    first = as_arrays(simulation, simulation.start().model.numpy())
    lead(first, tmp_path / "kept", Mean(), rounds=1, run_id=1)
    with pytest.raises(ConfigError, match="another seed"):
        lead(first, tmp_path / "kept", Mean(), rounds=2, run_id=2, seed=SEED + 1)


@pytest.mark.parametrize("seed", [-1, 2**63])
def test_a_seed_out_of_range_is_refused(seed):
    with pytest.raises(ConfigError, match="seed: expected `int`"):
        F2ed(roster=ROSTER, estimator=Mean(), min_crowd=3, seed=seed)


def test_a_checkpoint_of_an_older_format_is_refused(simulation, tmp_path):
    first = as_arrays(simulation, simulation.start().model.numpy())
    path = tmp_path / "old.checkpoint"
    path.write_bytes(msgspec.msgpack.encode({"format": 1, "round": 3, "roster": "test", "arrays": []}))
    with pytest.raises(ConfigError, match="has format 1, and this version of f2ed reads format 3"):
        lead(first, path, Mean(), rounds=4, run_id=1)
