"""Server optimizers in a run: by name, table, value and import path; resumed to the bit."""

import numpy as np
import pytest

from f2ed.core.errors import ConfigError
from f2ed.experiments.file import parse
from f2ed.experiments.grid import expand
from f2ed.protocol.aggregation import FedAdam, FedAvg, FedAvgM, ServerOptimizer
from f2ed.simulation import Simulation, experiment
from f2ed.simulation.checkpoint import pack, unpack
from f2ed.simulation.header import digest
from tests.simulation.small_run import SMALL


class Halved(ServerOptimizer, frozen=True, tag="halved"):
    """Move by half the mean."""

    title, paper = "Halved", "Nobody, 2026"

    share: float = 0.5

    def move(self, mean, memory, *, scale, steps):  # noqa: ARG002  every optimizer is called alike
        return mean * (self.share * scale), memory


def models(**changed):
    return [state.model for state, _ in Simulation(experiment(SMALL | changed), workers=1).rounds()]


@pytest.mark.parametrize("same", ["fedavg", {"kind": "fedavg"}, FedAvg(), None])
def test_fedavg_is_the_default_and_renames_no_run(same):
    assert experiment(SMALL | {"server_optimizer": same}) == experiment(SMALL)
    assert "server_optimizer" not in {name for name, value in _stated(same).items() if value is not None}


def _stated(optimizer):
    return Simulation(experiment(SMALL | {"server_optimizer": optimizer}), workers=1).header.settings


def test_without_momentum_fedavgm_gives_the_bits_of_fedavg():
    plain = models()
    assert all(map(np.array_equal, plain, models(server_optimizer=FedAvgM(server_momentum=0.0))))
    assert not np.array_equal(plain[1], models(server_optimizer="fedavgm")[1])


def test_an_optimizer_by_name_table_and_value_is_the_same():
    by_value = experiment(SMALL | {"server_optimizer": FedAdam(eta=0.02)})
    assert by_value == experiment(SMALL | {"server_optimizer": {"kind": "fedadam", "eta": 0.02}})
    assert experiment(SMALL | {"server_optimizer": "fedadam"}).server == FedAdam()


@pytest.mark.parametrize("shards", [4, "none"])
def test_a_resumed_run_gives_the_same_bits(shards):
    simulation = Simulation(experiment(SMALL | {"server_optimizer": "fedadam", "shards": shards}), workers=1)
    through = [state for state, _ in simulation.rounds()]
    before = unpack(pack(through[1], simulation.digest), simulation.digest, simulation.device)
    assert np.array_equal(simulation.step(before)[0].model, through[2].model)


def test_an_optimizer_of_your_own_runs_by_value_and_by_import_path():
    table = {"kind": "imported", "factory": f"{__name__}:Halved", "settings": {"share": 0.5}}
    by_path = experiment(SMALL | {"server_optimizer": table})
    assert by_path.server_optimizer == Halved()
    assert digest(by_path) == digest(experiment(SMALL | {"server_optimizer": Halved()}))
    first = models(rounds=1, server_optimizer=FedAvg(server_learning_rate=0.5))
    assert np.array_equal(models(rounds=1, server_optimizer=Halved())[0], first[0])


def test_a_file_compares_optimizers():
    text = """
    data = { kind = "synthetic", train = 240, test = 60, side = 4 }
    clients = 12
    shards = 4
    rounds = 1
    server_optimizer = ["fedavg", { kind = "fedadam", eta = 0.05, lr_schedule = { kind = "step", every = 10 } }]
    """
    cells = expand(parse(text, "mine.toml"))
    assert [cell.name for cell in cells] == ["fedavg", "fedadam"]
    assert cells[1].experiment.server.lr_schedule.every == 10


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ("fedadm", "server_optimizer.kind: there is no 'fedadm'; did you mean fedadam"),
        ({"kind": "fedadam", "lr": 1}, "server_optimizer.lr: there is no such setting"),
        ({"kind": "fedadam", "lr_schedule": {"kind": "steps"}}, "server_optimizer.lr_schedule.kind: there is no"),
        (FedAdam, "server_optimizer"),
    ],
)
def test_what_is_no_optimizer_is_refused(given, reason):
    with pytest.raises(ConfigError, match=reason.replace(".", r"\.")):
        experiment(SMALL | {"server_optimizer": given})
