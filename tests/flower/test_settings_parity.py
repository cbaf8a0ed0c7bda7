"""Simulation and deployment move a model with BatchNorm by the same bits, under every policy for its statistics.

Also with public weights and a server optimizer, across a restart of the server, and with all of these at once under
client sampling. The deployed model is in the order of torch's `state_dict`, in which statistics stand between the
weights.
"""

import msgspec
import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, Message, RecordDict
from flwr.clientapp import ClientApp

from f2ed import FilterL2, Mean
from f2ed.deployment import identity
from f2ed.deployment.roster import signed
from f2ed.flower import F2ed, protect
from f2ed.protocol.aggregation import ArrayClip, Buffers, FedAdam, FedAvg
from f2ed.protocol.primitives.crypto import digest
from tests.flower.fake_grid import FakeGrid, Node

torch = pytest.importorskip("torch")

CLIENTS, SHARDS, SEED, ROUNDS = 12, 4, 5, 4
ROSTER = f"test:{CLIENTS}/{SHARDS}"
WEIGHTS = {client: 3 + client % 3 for client in range(CLIENTS)}
CLIPS = (ArrayClip("1.*", 0.25), ArrayClip("*running_var", 16.0))

pytestmark = pytest.mark.usefixtures("simulated")


def network():
    return torch.nn.Sequential(
        torch.nn.Flatten(), torch.nn.Linear(16, 3), torch.nn.BatchNorm1d(3), torch.nn.ReLU(), torch.nn.Linear(3, 10)
    )


def change(client, round_, name, shape):
    """Return what training does to an array; statistics move by more than weights are allowed to."""
    drawn = np.random.default_rng([client, round_, len(name), sum(name.encode())]).normal(0.05, 0.02, shape)
    return (drawn * (60 if "running" in name else 1)).astype(np.float32)


def layout_of(module):
    from f2ed.learning.vector import layout

    return layout(module)


def simulation(estimator, optimizer, buffers, weights, *, per_round=SHARDS):
    from f2ed.simulation import Simulation, experiment
    from f2ed.simulation.client_weights import ClientWeights

    settings = {
        "data": {"kind": "synthetic", "train": 240, "test": 60, "side": 4},
        "model": network,
        "clients": CLIENTS,
        "clients_per_round": CLIENTS * per_round // SHARDS,
        "shards": per_round,
        "rounds": ROUNDS,
        "seed": SEED,
        "estimator": estimator,
        "server_optimizer": optimizer,
        "buffers": buffers,
    }
    found = Simulation(experiment(settings), workers=1)
    found._assignments._assign = identity.roster_from(ROSTER).assignment
    found._assignments._known = None
    if weights:
        found._open._weights = ClientWeights(WEIGHTS, max(WEIGHTS.values()))
    layout = layout_of(network())

    def local_updates(state, shards, _watch):
        rows = []
        for client in sorted(client for shard in shards for client in shard):
            start = (
                state.model
                if state.buffers is None
                else torch.cat((state.model[: layout.trained], state.buffers[client]))
            )
            parts = [
                change(client, state.round + 1, name, shape).ravel()
                for name, shape in zip(layout.names, layout.shapes, strict=True)
            ]
            rows.append((start.numpy() + np.concatenate(parts)) - start.numpy())
        return torch.from_numpy(np.stack(rows)), None

    found._local_updates = local_updates
    return found


def simulated_models(found):
    models, state = [], found.start()
    for _ in range(ROUNDS):
        state, record = found.step(state)
        assert record.skipped is None
        models.append(state.model.numpy().tobytes())
    return models


def train(message, context):
    client, round_ = context.node_config["partition-id"], message.content["config"]["server-round"]
    before = {name: array.numpy() for name, array in message.content["arrays"].items()}
    after = {
        name: values + change(client, round_, name, values.shape) if values.dtype == np.float32 else values
        for name, values in before.items()
    }
    arrays = ArrayRecord({name: Array(np.asarray(values)) for name, values in after.items()})
    return Message(RecordDict({"arrays": arrays}), reply_to=message)


def lead(first, checkpoint, layout, *, estimator, optimizer, rounds, run_id):
    """Lead rounds over a grid in this process; return the model after each, in the simulation's order."""
    app = ClientApp(mods=[protect])
    app.train()(train)
    run_config = {"f2ed-roster": ROSTER, "f2ed-rounding-seed": SEED}
    nodes = [Node(client, app, run_config=run_config) for client in range(CLIENTS)]
    leader = F2ed(
        roster=identity.roster_from(ROSTER),
        estimator=estimator,
        server_optimizer=optimizer,
        min_crowd=3,
        malicious=0,
        seed=SEED,
        checkpoint=checkpoint,
    )
    models = {}

    def keep(number, arrays):
        models[number] = np.concatenate([arrays[name].numpy().ravel() for name in layout.names]).tobytes()

    leader.start(FakeGrid(nodes, run_id), first, num_rounds=rounds, evaluate_fn=keep)
    assert [(record.skipped, record.clipped) for record in leader.records] == [(None, 0)] * len(leader.records)
    return models


POLICIES = {
    "average": Buffers(),
    "clips": Buffers(clip_value=32.0, clips=CLIPS),
    "keep": Buffers(policy="keep"),
    "local": Buffers(policy="local"),
}
ALWAYS = {("average", 0, True), ("clips", 1, False), ("keep", 0, False), ("local", 1, True)}


def cases():
    """Return all combinations, of which some are tested with every change."""
    for name, buffers in POLICIES.items():
        for place, optimizer in enumerate((FedAvg(), FedAdam(eta=0.05))):
            for weights in (False, True):
                marks = [] if (name, place, weights) in ALWAYS else pytest.mark.nightly
                title = f"{name}-{type(optimizer).__name__}-{'weighted' if weights else 'equal'}"
                yield pytest.param(buffers, optimizer, weights, marks=marks, id=title)


def roster_with(buffers, weights, *, per_round=None):
    """Return the test roster with these settings signed."""
    whole = identity.roster_from(ROSTER)
    changes = {"buffers": buffers, "accepted": ("stateful", "test", "leak"), "groups": (), "draw": type(whole.draw)()}
    if weights:
        clients = tuple(msgspec.structs.replace(each, weight=WEIGHTS[each.id]) for each in whole.clients)
        changes |= {"clients": clients, "weight_cap": max(WEIGHTS.values())}
    draft = msgspec.structs.replace(whole, signature=b"", **changes)
    sampled = {} if per_round is None else {"shards_per_round": per_round}
    seed = digest(b"f2ed test deal")
    return signed(draft, identity._TEST_AUTHORITY, shards=SHARDS, min_crowd=3, colluders=0, seed=seed, **sampled)


def compare(folder, found, estimator, optimizer):
    """Lead two rounds, and two more with another server; every model is that of the simulation."""
    module = found.model(found.start())
    first = ArrayRecord({name: Array(each.numpy().copy()) for name, each in module.state_dict().items()})
    layout = layout_of(module)
    given = {"estimator": estimator, "optimizer": optimizer}
    models = lead(first, folder / "c", layout, rounds=2, run_id=1, **given)
    models |= lead(first, folder / "c", layout, rounds=ROUNDS, run_id=2, **given)
    assert [models[number] for number in range(1, ROUNDS + 1)] == simulated_models(found)
    assert models[1] != models[ROUNDS]


@pytest.mark.parametrize(("buffers", "optimizer", "weights"), list(cases()))
def test_simulation_and_deployment_give_the_same_bits(tmp_path, monkeypatch, buffers, optimizer, weights):
    made = roster_with(buffers, weights)
    monkeypatch.setattr(identity, "roster_from", lambda _: made)
    estimator = FilterL2(contamination=0.2) if optimizer == FedAvg() else Mean()
    compare(tmp_path, simulation(estimator, optimizer, buffers, weights), estimator, optimizer)


def test_sampling_weights_optimizer_and_statistics_at_once_give_the_same_bits(tmp_path, monkeypatch):
    made = roster_with(Buffers(), weights=True, per_round=3)
    assert len({made.assignment(round_).shards for round_ in range(ROUNDS)}) > 1
    monkeypatch.setattr(identity, "roster_from", lambda _: made)
    estimator, optimizer = FilterL2(contamination=0.2), FedAdam(eta=0.05)
    found = simulation(estimator, optimizer, Buffers(), weights=True, per_round=3)
    compare(tmp_path, found, estimator, optimizer)
