"""Client sampling over Flower: the roster's seed draws the shards of a round, and nodes refuse any others."""

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, Message, RecordDict
from flwr.clientapp import ClientApp

from f2ed.core.errors import ConfigError, Refusal
from f2ed.deployment.identity import roster_from
from f2ed.deployment.roster.terms import derived_terms
from f2ed.estimators import Bulyan, FilterL2
from f2ed.flower import F2ed, protect
from f2ed.protocol.aggregation import FedAdam
from tests.flower.fake_grid import FakeGrid, Node, model, moved_by, server, vector
from tests.flower.fake_grid import change as training_of
from tests.simulation.small_run import SMALL

torch = pytest.importorskip("torch")

CLIENTS, SHARDS, PER_ROUND, SEED, ROUNDS = 36, 12, 4, 5, 3
SPEC = f"test:{CLIENTS}/{SHARDS}/auto/{PER_ROUND}"


def change(client, round_, size):
    return np.random.default_rng([client, round_]).normal(0.05, 0.02, size).astype(np.float32)


def members(assignment):
    return sorted(client for shard in assignment.shards for client in shard)


@pytest.fixture
def simulation(simulated):  # noqa: ARG001  nodes of a test roster run in simulations alone
    from f2ed.simulation import Simulation, experiment

    sampled = {"clients": CLIENTS, "clients_per_round": 3 * PER_ROUND, "shards": PER_ROUND, "rounds": ROUNDS}
    optimizer = {"server_optimizer": FedAdam(eta=0.01), "estimator": FilterL2(f=1)}
    found = Simulation(experiment(SMALL | sampled | optimizer | {"seed": SEED, "malicious": 0}), workers=1)
    roster = roster_from(SPEC)
    found._assignments._assign = roster.assignment
    found._assignments._known = None

    def local_updates(state, shards, _watch):
        model = state.model.numpy()
        everyone = sorted(client for shard in shards for client in shard)
        moved = [model + change(client, state.round + 1, len(model)) for client in everyone]
        return torch.from_numpy(np.stack([after - model for after in moved])), None

    found._local_updates = local_updates
    return found


def led(first, asked):
    def train(message, context):
        before, round_ = message.content["arrays"], message.content["config"]["server-round"]
        client = context.node_config["partition-id"]
        asked.setdefault(round_ - 1, set()).add(client)
        model = before["w"].numpy()
        after = model + change(client, round_, len(model))
        return Message(RecordDict({"arrays": ArrayRecord({"w": Array(after)})}), reply_to=message)

    app = ClientApp(mods=[protect])
    app.train()(train)
    run_config = {"f2ed-roster": SPEC, "f2ed-rounding-seed": SEED}
    grid = FakeGrid([Node(client, app, run_config=run_config) for client in range(CLIENTS)], 1)
    leader = F2ed(
        roster=SPEC, estimator=FilterL2(f=1), server_optimizer=FedAdam(eta=0.01), min_crowd=3, malicious=0, seed=SEED
    )
    models = []
    leader.start(
        grid,
        ArrayRecord({"w": Array(first)}),
        num_rounds=ROUNDS,
        evaluate_fn=lambda _, arrays: models.append(arrays["w"].numpy().tobytes()),
    )
    return leader, models[1:]


def test_simulation_and_deployment_give_the_same_bits_and_only_the_sample_is_asked(simulation):
    state, expected = simulation.start(), []
    first = state.model.numpy().copy()
    for _ in range(ROUNDS):
        state, record = simulation.step(state)
        assert record.skipped is None
        expected.append(state.model.numpy().tobytes())
    asked = {}
    leader, models = led(first, asked)
    assert models == expected
    roster = roster_from(SPEC)
    assert asked == {round_: set(members(roster.assignment(round_))) for round_ in range(ROUNDS)}
    assert [record.dropped for record in leader.records] == [{}] * ROUNDS
    assert {record.leak.crowd for record in leader.records} == {3}


def test_the_draw_is_of_whole_shards_and_of_the_round():
    roster = roster_from(SPEC)
    whole = set(roster.whole_assignment(0).shards)
    drawn = [roster.assignment(round_) for round_ in range(8)]
    assert all(len(each.shards) == PER_ROUND and set(each.shards) <= whole for each in drawn)
    assert len({each.shards for each in drawn}) > 4
    assert len({roster.key_epoch(round_) for round_ in range(8)}) == 8
    assert (roster.round_shards, roster.round_clients) == (4, 12)


def test_a_node_refuses_a_round_that_it_was_not_drawn_for():
    roster = roster_from(SPEC)
    inside = set(members(roster.assignment(0)))
    outside = min(set(range(CLIENTS)) - inside)
    assert derived_terms(roster, 1, min(inside), 0, 20).members == roster.shard_of(min(inside), 0)
    with pytest.raises(Refusal, match=f"client {outside} is not in the sample of round 0: .* draws 4 of 12 shards"):
        derived_terms(roster, 1, outside, 0, 20)
    with pytest.raises(Refusal, match="not in the sample of round 0"):
        roster.shard_of(outside, 0)


def test_more_attackers_than_a_round_tolerates_are_refused():
    with pytest.raises(ConfigError, match="2 malicious clients can contaminate half of 4 shards"):
        F2ed(roster=SPEC, estimator=FilterL2(f=1), min_crowd=3, malicious=2)


def test_more_shards_than_a_round_has_cannot_be_waited_for():
    with pytest.raises(ConfigError, match="the roster has 4 shards in a round"):
        F2ed(roster=SPEC, estimator=FilterL2(f=1), min_crowd=3, malicious=0, min_shards=5)


def test_signed_nodes_follow_the_sample_over_many_rounds(federation):
    grid, _, roster = federation(count=12, shards=4, signed={"shards_per_round": 2})
    leader = server(roster, malicious=0)
    arrays = leader.start(grid, model(), num_rounds=6).arrays
    drawn = [leader.roster.assignment(round_).shards for round_ in range(6)]
    np.testing.assert_allclose(vector(arrays), moved_by(drawn), atol=1e-4)
    assert len({client for shards in drawn for shard in shards for client in shard}) > 6


def test_shards_count_as_the_weights_of_their_members(federation):
    weights = {client: 2 + client % 2 for client in range(12)}
    grid, _, roster = federation(
        count=12, shards=3, fields={"weight_cap": 3, "accepted": ("leak",)}, signed={"weights": weights}
    )
    leader = server(roster, malicious=0)
    moved = vector(leader.start(grid, model(), num_rounds=1).arrays) - vector(model())
    every = np.stack([training_of(client, 1) for client in range(12)])
    np.testing.assert_allclose(moved, np.average(every, axis=0, weights=list(weights.values())), atol=1e-4)
    with pytest.raises(ConfigError, match="Bulyan is not defined for rows of different weights"):
        server(roster, malicious=0, estimator=Bulyan(f=1))
