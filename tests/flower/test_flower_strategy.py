"""F2ed as one of Flower's strategies: its hooks are called, and others of them work inside of it."""

import json

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.serverapp.strategy import (
    DifferentialPrivacyServerSideFixedClipping,
    FedAdagrad,
    FedAdam,
    FedAvg,
    FedAvgM,
    FedProx,
    FedYogi,
    Krum,
    Strategy,
)

from f2ed import ConfigError
from f2ed.deployment.roster import Rule, TrainingRules
from f2ed.flower import BestModel, F2ed
from f2ed.flower.round_input import one_message
from f2ed.protocol import aggregation
from tests.flower.fake_grid import FakeGrid, Node, model, moved_by, server, user_app, vector

OPTIMIZERS = [
    lambda: FedAdam(eta=0.02, tau=0.01),
    lambda: FedYogi(eta=0.02, tau=0.01),
    lambda: FedAdagrad(eta=0.02, tau=0.01),
    lambda: FedAvgM(server_learning_rate=0.5, server_momentum=0.9),
]


def lead(run_id=1, rounds=3, start=None, **settings):
    """Lead rounds with simulated clients whose roundings are fixed; return every model."""
    run_config = {"f2ed-roster": "test:6/2", "f2ed-rounding-seed": 5}
    grid = FakeGrid([Node(client, user_app(), run_config=run_config) for client in range(6)], run_id)
    models = {}
    keep = lambda number, arrays: models.update({number: arrays})  # noqa: E731
    server("test:6/2", seed=3, **settings).start(grid, model(), rounds, evaluate_fn=keep, **(start or {}))
    return models


def test_it_is_a_strategy_with_all_hooks():
    assert issubclass(F2ed, Strategy)
    assert not F2ed.__abstractmethods__


@pytest.mark.usefixtures("simulated")
def test_fedavg_inside_changes_no_bit():
    plain, inside = lead(), lead(inner=FedAvg())
    assert [vector(each).tobytes() for each in plain.values()] == [vector(each).tobytes() for each in inside.values()]
    assert inside[3]["count"].numpy() == [7]
    assert inside[3]["weight"].numpy().dtype == np.float32


@pytest.mark.usefixtures("simulated")
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_a_server_optimizer_inside_moves_the_model_as_it_does_on_one_reply(optimizer):
    means, alone = [], optimizer()

    class Listening(F2ed):
        def aggregate_train(self, server_round, replies):
            means.append(next(iter(replies)).content)
            return super().aggregate_train(server_round, [Message(means[-1], reply_to=one_message(*given))])

    given = model(), ConfigRecord()
    run_config = {"f2ed-roster": "test:6/2", "f2ed-rounding-seed": 5}
    grid = FakeGrid([Node(client, user_app(), run_config=run_config) for client in range(6)])
    strategy = Listening(roster="test:6/2", min_crowd=3, malicious=0, inner=optimizer(), seed=3)
    last = strategy.start(grid, model(), 3).arrays
    expected = model()
    for number, content in enumerate(means, 1):
        list(alone.configure_train(number, expected, ConfigRecord(), grid))
        made, _ = alone.aggregate_train(number, [Message(content, reply_to=one_message(*given))])
        expected = ArrayRecord(
            {name: Array(made[name].numpy().astype(each.numpy().dtype)) for name, each in expected.items()}
        )
    np.testing.assert_allclose(vector(last), vector(expected), rtol=1e-6)
    assert np.abs(vector(last) - vector(means[-1]["arrays"])).max() > 1e-4
    assert last["count"].numpy() == [7]


@pytest.mark.usefixtures("simulated")
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_the_state_of_an_inner_strategy_survives_a_restart(optimizer, tmp_path):
    whole = lead(rounds=4, inner=optimizer())
    path = tmp_path / "run.checkpoint"
    lead(rounds=2, inner=optimizer(), checkpoint=path)
    rest = lead(run_id=2, rounds=4, inner=optimizer(), checkpoint=path)
    assert vector(rest[4]).tobytes() == vector(whole[4]).tobytes()
    with pytest.raises(ConfigError, match=r"inner strategy Fed.*, and this is FedProx"):
        lead(run_id=3, rounds=5, inner=FedProx(proximal_mu=0.1), checkpoint=path)
    with pytest.raises(ConfigError, match="holds the state of an inner strategy"):
        lead(run_id=3, rounds=5, checkpoint=path)


@pytest.mark.usefixtures("simulated")
def test_a_server_optimizer_moves_the_model_as_flowers_own_does_and_survives_a_restart(tmp_path):
    mine = {"server_optimizer": aggregation.FedAdam(eta=0.02, tau=0.01)}
    whole, flowers = lead(rounds=4, **mine), lead(rounds=4, inner=OPTIMIZERS[0]())
    np.testing.assert_allclose(vector(whole[4]), vector(flowers[4]), atol=1e-5)
    lead(rounds=2, checkpoint=tmp_path / "c", **mine)
    rest = lead(run_id=2, rounds=4, checkpoint=tmp_path / "c", **mine)
    assert vector(rest[4]).tobytes() == vector(whole[4]).tobytes()


def test_the_setting_of_fedprox_reaches_the_clients_if_the_roster_has_a_rule_for_it(federation):
    rules = TrainingRules(settings=(Rule("proximal-mu", "float", low=0.0, high=1.0),))
    grid, _, roster = federation(fields={"training": rules})
    server(roster, inner=FedProx(proximal_mu=0.25)).start(grid, model(), num_rounds=1)
    assert grid.sent[-1].content["config"]["proximal-mu"] == 0.25
    with pytest.raises(ConfigError, match=r"would refuse the settings of round 1: the setting 'proximal-mu' is '2\.0'"):
        server(roster, inner=FedProx(proximal_mu=2.0)).start(grid, model(), num_rounds=1)


def test_a_strategy_that_overrides_the_hooks_works_as_with_flowers_own(federation):
    saved = []

    class Custom(F2ed):
        def configure_train(self, server_round, arrays, config, grid):
            config["lr"] = config["lr"] * 0.5  # As in Flower's documentation: it lasts.
            return super().configure_train(server_round, arrays, config, grid)

        def aggregate_train(self, server_round, replies):
            arrays, metrics = super().aggregate_train(server_round, replies)
            saved.append((server_round, vector(arrays), dict(metrics)))
            return arrays, metrics

    grid, _, roster = federation()
    strategy = Custom(roster=roster, min_crowd=3, malicious=0)
    result = strategy.start(grid, model(), 3, train_config=ConfigRecord({"lr": 0.8}))
    rates = [each.content["config"]["lr"] for each in grid.sent if "config" in each.content]
    assert sorted(set(rates), reverse=True) == [0.4, 0.2, 0.1]
    assert [number for number, _, _ in saved] == [1, 2, 3]
    assert saved[0][2] == {"shards-opened": 2, "clients-dropped": 0, "crowd": 3}
    np.testing.assert_allclose(saved[-1][1], moved_by([roster.assignment(0).shards] * 3), atol=4e-6)
    assert vector(result.arrays).tobytes() == saved[-1][1].tobytes()


def test_a_model_that_the_strategy_does_not_want_is_not_taken(federation):
    class Cautious(F2ed):
        def aggregate_train(self, server_round, replies):
            arrays, metrics = super().aggregate_train(server_round, replies)
            return (None if server_round == 1 else arrays), metrics

    grid, _, roster = federation()
    models = []
    keep = lambda _, arrays: models.append(vector(arrays).tobytes())  # noqa: E731
    Cautious(roster=roster, min_crowd=3, malicious=0).start(grid, model(), 2, evaluate_fn=keep)
    assert models[0] == models[1] != models[2]


def broken(arrays=None, records=None, differ=False, config=None, kind="train", nothing=False):
    """Return a strategy whose configure_train does something that masks do not allow."""

    class Broken(F2ed):
        def configure_train(self, server_round, given, settings, grid):  # noqa: ARG002  as Flower calls it
            if nothing:
                return []
            settings = ConfigRecord(dict(settings) | (config or {}))
            content = RecordDict({"arrays": arrays or given, "config": settings} | (records or {}))
            other = RecordDict({"arrays": given, "config": ConfigRecord({"server-round": 1, "lr": 2.0})})
            return [Message(content, 1, kind), Message(other if differ else content, 2, kind)]

    return Broken


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"differ": True}, "made messages that differ"),
        ({"records": {"control": model()}}, "SCAFFOLD's control variates, are not supported"),
        ({"records": {"more": ConfigRecord({"a": 1})}}, "one record of settings"),
        ({"arrays": model(24)}, "configure_train changed the model"),
        ({"config": {"server-round": 9}}, "set 'server-round' to 9 in round 1"),
        ({"kind": "query"}, "message of type 'query'"),
        ({"nothing": True}, "configure_train made no message"),
    ],
)
def test_what_cannot_be_asked_under_masks_is_refused_before_anybody_is_asked(federation, changes, why):
    grid, _, roster = federation()
    with pytest.raises(ConfigError, match=why):
        broken(**changes)(roster=roster, min_crowd=3, malicious=0).start(grid, model(), 1)
    assert not grid.sent


@pytest.mark.parametrize(
    ("made", "why"),
    [
        (lambda _: ArrayRecord({"weight": Array(np.zeros(3))}), "returned other arrays than the model has"),
        (lambda a: ArrayRecord(dict(a) | {"bias": Array(np.zeros(4))}), "'bias' with shape"),
        (lambda a: ArrayRecord(dict(a) | {"bias": Array(np.full(3, np.nan))}), "NaN or infinite; lower its rate"),
    ],
)
def test_a_model_that_is_none_is_refused(federation, made, why):
    class Wrong(F2ed):
        def aggregate_train(self, server_round, replies):
            arrays, metrics = super().aggregate_train(server_round, replies)
            return made(arrays), metrics

    grid, _, roster = federation()
    with pytest.raises(ConfigError, match=why):
        Wrong(roster=roster, min_crowd=3, malicious=0).start(grid, model(), 1)


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"fraction_train": 0.5}, "takes no fraction_train: the roster says who takes part"),
        ({"weighted_by_key": "n"}, "takes no weighted_by_key: weights are public and signed"),
        ({"shard": 2}, "takes no shard: there is no such setting"),
        ({"inner": object()}, "inner is a object; give a strategy of flwr.serverapp.strategy"),
        ({"inner": Krum()}, "inner=Krum: it chooses among the updates of single clients"),
        ({"inner": DifferentialPrivacyServerSideFixedClipping(FedAvg(), 1.0, 1.0, 2)}, "--noise-multiplier"),
        ({"inner": FedAvg(), "server_optimizer": aggregation.FedAdam()}, "give one of them"),
        ({"inner": FedAvg(fraction_train=0.5)}, "fraction_train=0.5: who takes part"),
        ({"inner": FedAvg(min_available_nodes=9)}, "min_available_nodes=9, and the roster has 6 clients"),
    ],
)
def test_what_flowers_strategies_have_and_this_one_has_not_is_refused_by_name(federation, settings, why):
    _, _, roster = federation()
    with pytest.raises(ConfigError, match=why):
        server(roster, **settings)


def test_replies_of_clients_are_not_aggregated_outside_of_a_round(federation):
    _, _, roster = federation()
    with pytest.raises(ConfigError, match="aggregate_train got 2 replies of clients"):
        server(roster).aggregate_train(1, [one_message(model(), ConfigRecord())] * 2)


def test_an_inner_strategy_that_talks_to_clients_itself_is_refused(federation):
    class Talks(FedAvg):
        def configure_train(self, server_round, arrays, config, grid):
            grid.send_and_receive([])
            return super().configure_train(server_round, arrays, config, grid)

    grid, _, roster = federation()
    with pytest.raises(ConfigError, match="the inner strategy sends messages of its own"):
        server(roster, inner=Talks()).start(grid, model(), 1)


def test_settings_may_follow_the_round_within_what_the_roster_allows(federation):
    rules = TrainingRules(settings=(Rule("lr", "float", low=0.1, high=0.5),))
    grid, _, roster = federation(fields={"training": rules})
    server(roster).start(grid, model(), 3, train_config=lambda number: {"lr": 0.5 / number})
    rates = [each.content["config"]["lr"] for each in grid.sent if "config" in each.content]
    assert sorted(set(rates), reverse=True) == [0.5, 0.25, 0.5 / 3]
    sent = len(grid.sent)
    with pytest.raises(ConfigError, match="would refuse train_config or the model: the setting 'lr'"):
        server(roster).start(grid, model(), 6, train_config=lambda number: {"lr": 0.5 / number})
    assert len(grid.sent) == sent, "found before the first round, although it is in the sixth"


@pytest.mark.parametrize(
    ("given", "why"),
    [({"lr": 0.1}, "train_config is a dict"), (lambda _: 0.1, "returned a float for round 1")],
)
def test_settings_that_are_none_are_refused(federation, given, why):
    grid, _, roster = federation()
    with pytest.raises(ConfigError, match=why):
        server(roster).start(grid, model(), 1, train_config=given)


def test_hooks_are_called_after_each_round_and_the_best_model_is_kept(federation, tmp_path):
    grid, _, roster = federation()
    seen, scores = [], iter([0.1, 0.6, 0.9, 0.7])
    models = []

    def evaluate(_, arrays):
        models.append(vector(arrays))
        return MetricRecord({"accuracy": next(scores)})

    best = BestModel(tmp_path / "best.npz")
    server(roster, on_round=[best, seen.append]).start(grid, model(), 3, evaluate_fn=evaluate)
    assert [(each.round, each.record.accuracy, each.metrics["accuracy"]) for each in seen] == [
        (1, 0.6, 0.6),
        (2, 0.9, 0.9),
        (3, 0.7, 0.7),
    ]
    with np.load(tmp_path / "best.npz") as saved:
        assert saved["weight"].tobytes() == models[2][:-3].tobytes()
    assert json.loads((tmp_path / "best.npz.json").read_text()) == {"metric": "accuracy", "round": 2, "value": 0.9}
    again = BestModel(tmp_path / "best.npz")
    again(seen[0])
    assert json.loads((tmp_path / "best.npz.json").read_text())["round"] == 2, "a better one is there already"


def test_the_best_model_needs_a_number_and_a_place(federation, tmp_path):
    with pytest.raises(ConfigError, match="name a file in a folder that exists"):
        BestModel(tmp_path / "nowhere" / "best.npz")
    grid, _, roster = federation()
    with pytest.raises(ConfigError, match="evaluate_fn returns no number 'loss'"):
        server(roster, on_round=BestModel(tmp_path / "best.npz", metric="loss", smallest=True)).start(
            grid, model(), 1, evaluate_fn=lambda *_: MetricRecord({"accuracy": 1.0})
        )
    (tmp_path / "best.npz.json").write_text("{")
    with pytest.raises(ConfigError, match="delete it to start over"):
        server(roster, on_round=BestModel(tmp_path / "best.npz")).start(
            FakeGrid(grid.nodes.values(), 8), model(), 1, evaluate_fn=lambda *_: MetricRecord({"accuracy": 1.0})
        )


def evaluating(nodes):
    """Let these nodes answer `evaluate` with a loss."""
    for node in nodes:
        app = user_app()

        def evaluate(message, context):
            client = context.node_config["partition-id"]
            metrics = MetricRecord({"loss": float(client), "num-examples": client + 1})
            return Message(RecordDict({"metrics": metrics}), reply_to=message)

        app._registered_funcs.pop("evaluate.default")
        app.evaluate()(evaluate)
        node.app = app


def test_clients_evaluate_in_the_clear_where_the_roster_allows_it(federation):
    rules = TrainingRules(messages=("train", "evaluate"), any_setting=True, any_run_setting=True)
    grid, nodes, roster = federation(fields={"training": rules, "accepted": ("evaluate",)})
    evaluating(nodes)
    result = server(roster).start(grid, model(), 1, evaluate_config=ConfigRecord({"batch": 8}))
    expected = sum(client * (client + 1) for client in range(6)) / 21
    assert result.evaluate_metrics_clientapp[1]["loss"] == pytest.approx(expected)
    grid, nodes, roster = federation(run_id=8)
    assert not server(roster).start(grid, model(), 1).evaluate_metrics_clientapp, "nobody asked for it"


def test_a_strategy_that_asks_clients_to_evaluate_where_the_roster_does_not_is_refused(federation):
    class Asks(F2ed):
        def configure_evaluate(self, server_round, arrays, config, grid):  # noqa: ARG002  as Flower calls it
            return [Message(RecordDict({"arrays": arrays, "config": config}), 1, "evaluate")]

    grid, _, roster = federation()
    with pytest.raises(ConfigError, match="would refuse what configure_evaluate asks for"):
        Asks(roster=roster, min_crowd=3, malicious=0).start(grid, model(), 1)
