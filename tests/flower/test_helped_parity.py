"""Simulation and deployment keep the same clients and move the model by the same bits, with helpers.

Both get the same updates, the same rounding and the same halves of the joint seed. Between two rounds the deployed
server is replaced by one that knows nothing but the checkpoint. One client sends an update that is too long in the
first round of an epoch: it is out for the second one, and back in the next epoch.
"""

import msgspec
import numpy as np
import pytest
from flwr.clientapp import ClientApp

from f2ed import FilterL2
from f2ed.core.randomness import stream
from f2ed.deployment import helped_step, helper_store, node_step
from f2ed.flower import protect
from f2ed.protocol.aggregation import FedAdam
from f2ed.protocol.helpers import STRUCK, HelpersProtocol
from f2ed.protocol.helpers.messages import PeerError, decode
from f2ed.protocol.helpers.requests import AskOpening
from tests.flower.helped_nodes import HelpedNodes, strategy
from tests.flower.test_strategy_parity import as_arrays, flat, trained
from tests.simulation.small_run import SMALL

torch = pytest.importorskip("torch")

CLIENTS, SEED, ROUNDS, LIAR, LONG = 9, 5, 3, 4, 7
RULE = FilterL2(contamination=0.25)
SETTINGS = {"size": 3, "epoch": 2, "sketch": 384, "agreement": "x25519", "spot": 2}


def change(client, round_, size):
    """Return what training does; one client pushes the other way in the second round, one is too long in the first."""
    drawn = np.random.default_rng([client, round_]).normal(0.02, 0.01, size).astype(np.float32)
    return drawn * {(LIAR, 2): -3, (LONG, 1): 400}.get((client, round_), 1)


def simulated(guard, groups):
    from f2ed.simulation import Simulation, experiment

    settings = SMALL | {"clients": CLIENTS, "rounds": ROUNDS, "seed": SEED, "malicious": 0, "clip_norm": 1.0}
    settings |= {"protocol": {"kind": "helpers", "guard": guard} | SETTINGS, "server_optimizer": {"kind": "fedadam"}}
    settings |= {"estimator": msgspec.to_builtins(RULE), "malicious": 1, "attack": "sign-flip", "unclipped": True}
    del settings["shards"]
    simulation = Simulation(experiment(settings), workers=1)

    def local_updates(state, _shards, _watch):
        model = state.model.numpy()
        rows = [model + change(client, state.round + 1, len(model)) - model for client in range(CLIENTS)]
        return torch.from_numpy(np.stack(rows)), None

    simulation._local_updates = local_updates
    simulation._helped._attackers = frozenset({LONG})
    true = simulation._helped._terms
    simulation._helped._terms = lambda *given: msgspec.structs.replace(true(*given), groups=groups)
    return simulation


def train(message, context):
    from flwr.app import Message, RecordDict

    before, round_ = message.content["arrays"], message.content["config"]["server-round"]
    client, model = context.node_config["partition-id"], flat(before)
    after = trained(before, 0, 0)
    step = model + change(client, round_, len(model))
    pieces = np.split(step, np.cumsum([each.numpy().size for each in before.values()])[:-1])
    for (name, array), piece in zip(before.items(), pieces, strict=True):
        after[name] = type(array)(piece)
    return Message(RecordDict({"arrays": after}), reply_to=message)


@pytest.fixture
def seeded(monkeypatch):
    """Let nodes and helpers draw from the simulation's streams."""
    from f2ed.simulation import helped

    asked, upload, encoded = [], node_step.helped_upload, helped_step.encoded

    def helped_upload(me, *given, **more):
        asked.append(me.id)
        return upload(me, *given, **more)

    def with_stream(update, *, key):  # noqa: ARG001  fresh bytes, in a real deployment
        if asked[-1] == LONG:  # a node with code of its own, that does not clip
            return lambda terms: helped._at_full_length(update, terms)
        return lambda terms: encoded(update, key=stream(SEED, "rounding", terms.round, asked[-1]).bytes(32))(terms)

    monkeypatch.setattr(node_step, "helped_upload", helped_upload)
    monkeypatch.setattr(helped_step, "encoded", with_stream)
    for role in ("mixer", "judge"):
        name = f"respond_as_{role}"
        monkeypatch.setattr(helper_store, name, _with_half(role, getattr(helper_store, name)))


def _with_half(role, respond):
    def answer(helper, state, request, *, entropy, half):
        try:
            terms = decode((AskOpening,), request).terms
            half = stream(SEED, "helpers", role, terms.round).bytes(32)
        except PeerError:
            pass
        return respond(helper, state, request, entropy=entropy, half=half)

    return answer


@pytest.mark.usefixtures("seeded")
@pytest.mark.parametrize("guard", ["groups", "nested"])
def test_simulation_and_deployment_give_the_same_bits(tmp_path, guard):
    app = ClientApp(mods=[protect])
    app.train()(train)
    settings = HelpersProtocol(guard=guard, **SETTINGS)
    it = HelpedNodes(tmp_path, count=CLIENTS, settings=settings, rule=RULE, client_app=app)
    groups = tuple(sorted(tuple(sorted(group.members)) for group in it.roster.groups)) if guard == "groups" else ()
    simulation = simulated(guard, groups)
    state = simulation.start()
    first, models, records = as_arrays(simulation, state.model.numpy()), {}, []
    for rounds in (1, ROUNDS):
        server = strategy(it, server_optimizer=FedAdam(), deadline=20, train_deadline=20)
        server.start(it.grid, first, num_rounds=rounds, evaluate_fn=lambda n, arrays: models.update({n: flat(arrays)}))
        records += server.records
    for number in range(1, ROUNDS + 1):
        state, expected = simulation.step(state)
        found = records[number - 1]
        assert (found.weights, found.crowd, found.rejected) == (expected.weights, expected.crowd, expected.rejected)
        assert (found.eigenvalue, found.leak) == (expected.eigenvalue, expected.leak)
        assert (found.excluded, found.dropped) == (expected.excluded, expected.dropped)
        assert models[number].tobytes() == state.model.numpy().tobytes()
    assert LIAR in records[1].rejected
    assert records[0].excluded == {LONG: "too long: failed the range tests"}
    assert records[1].excluded == records[1].dropped == {LONG: STRUCK}
    assert LONG not in records[2].excluded
