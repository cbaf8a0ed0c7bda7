"""One federation three times: simulated with masks, simulated in the clear, and on Flower's simulation engine.

Prints nothing; leaves the shard means and the models of every round in a folder. The same seeds everywhere: the same
data, the same order of batches, the same random rounding. The shards are the roster's, which is public.
"""

import os
import sys
import warnings
from pathlib import Path

warnings.simplefilter("ignore")

import numpy as np  # noqa: E402
import torch  # noqa: E402
from flwr.app import Array, ArrayRecord, Message, RecordDict  # noqa: E402
from flwr.clientapp import ClientApp  # noqa: E402
from flwr.serverapp import ServerApp  # noqa: E402
from flwr.simulation import run_simulation  # noqa: E402
from torch import nn  # noqa: E402

from f2ed import FilterL2  # noqa: E402
from f2ed.deployment.identity import roster_from  # noqa: E402
from f2ed.estimators import Estimator  # noqa: E402
from f2ed.flower import F2ed, protect  # noqa: E402
from f2ed.learning import LocalTrainer, TrainingJob, TrainingKey, flatten, split_samples  # noqa: E402
from f2ed.simulation.config import experiment  # noqa: E402
from f2ed.simulation.run import Simulation  # noqa: E402

CLIENTS, SHARDS, ROUNDS, SEED = 12, 4, 3, 7
ROSTER = f"test:{CLIENTS}/{SHARDS}"
torch.set_num_threads(1)


def network():
    """Return a network that draws random numbers as it trains: simulations train such a one client by client."""
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 16), nn.ReLU(), nn.Dropout(0.1), nn.Linear(16, 10))


def settings(*, secure):
    return experiment(
        {
            "data": {"kind": "synthetic", "train": 20 * CLIENTS, "test": 10, "side": 8},
            "model": {"kind": "imported", "factory": "parity:network"},
            "training": {"lr": 0.1, "batch_size": 5, "local_epochs": 2},
            "clients": CLIENTS,
            "malicious": 1,
            "shards": SHARDS,
            "estimator": {"kind": "filter-l2", "contamination": 0.25},
            "rounds": ROUNDS,
            "seed": SEED,
            "secure": secure,
        }
    )


def simulated(folder, name, *, secure):
    """Run the federation in this process."""
    simulation = Simulation(settings(secure=secure), workers=1)
    roster, shards = roster_from(ROSTER), simulation._open
    simulation._assignments._assign = lambda _epoch: roster.assignment(0)
    simulation._assignments._known = None

    def seen(updates, model, round_, dropped):
        found = shards(updates, model, round_, dropped)
        np.save(folder / f"{name}_means_{round_ + 1}.npy", found.matrix)
        return found

    simulation._open = seen
    for state, _ in simulation.rounds():
        np.save(folder / f"{name}_model_{state.round}.npy", state.model.numpy())


class Seen(Estimator, frozen=True, tag="seen"):
    """A filter that keeps what it was given."""

    title, family, paper = "FilterL2", "spectral", ""

    inner: FilterL2
    folder: str
    rounds: list[int]

    def __call__(self, means, **context):
        self.rounds.append(len(self.rounds) + 1)
        np.save(Path(self.folder) / f"flower_means_{self.rounds[-1]}.npy", means)
        return self.inner(means, **context)

    def estimate(self, rows):
        return self.inner.estimate(rows)


def seeded(message, context, call_next):
    """Fix the random rounding, as settings of a run would."""
    context.run_config["f2ed-rounding-seed"] = SEED
    try:
        return call_next(message, context)
    finally:
        del context.run_config["f2ed-rounding-seed"]  # Flower lets nobody change the settings of a run.


def train(message, context):
    """Train one client, from what it is sent and what it can compute."""
    torch.set_num_threads(1)
    it = settings(secure=True)
    data = it.data(None)
    me, round_ = context.node_config["partition-id"], message.content["config"]["server-round"]
    mine = split_samples(data.train, it.partition(data.train.labels.numpy(), CLIENTS, SEED))[me]
    local = LocalTrainer(it.model(data.shape, data.classes, SEED))
    before = torch.tensor(message.content["arrays"]["x"].numpy())
    local.train(before, TrainingJob(me, mine, it.training), TrainingKey(SEED, round_ - 1, me))
    arrays = ArrayRecord({"x": Array(flatten(local.model).numpy())})
    return Message(RecordDict({"arrays": arrays}), reply_to=message)


def on_flower(folder):
    """Run the federation on Flower: every client trains in a process of ray."""
    it = settings(secure=True)
    data = it.data(None)
    first = flatten(it.model(data.shape, data.classes, SEED)).numpy()
    server, client = ServerApp(), ClientApp(mods=[seeded, protect])

    client.train()(train)

    @server.main()
    def lead(grid, _context):
        strategy = F2ed(
            roster=ROSTER,
            estimator=Seen(FilterL2(contamination=0.25), str(folder), []),
            min_crowd=3,
            deadline=300,
            train_deadline=300,
        )

        def after(number, arrays):
            if number:
                np.save(folder / f"flower_model_{number}.npy", arrays["x"].numpy())

        strategy.start(grid, ArrayRecord({"x": Array(first)}), num_rounds=ROUNDS, evaluate_fn=after)

    resources = {"client_resources": {"num_cpus": 1, "num_gpus": 0.0}, "init_args": {"num_cpus": 2}}
    run_simulation(server, client, num_supernodes=CLIENTS, backend_config=resources)


def main():
    folder = Path(sys.argv[1])
    os.environ["F2ED_ROSTER"] = ROSTER
    simulated(folder, "masked", secure=True)
    simulated(folder, "clear", secure=False)
    on_flower(folder)


if __name__ == "__main__":
    import parity  # Ray's processes must be able to import what they run.

    parity.main()
