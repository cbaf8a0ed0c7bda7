"""A round of a simulated federation: f2ed with both protections on against Flower's simulation with plain FedAvg.

    python benchmarks/flower_simulation.py [--models mlp cnn] [--clients 100] [--rounds 3] [--loading tensors]

The same work on both sides: every client trains one epoch of SGD in batches of ten on its 600 synthetic images, from
the same weights. Flower's clients use one torch thread each, and load their data in two ways: `tensors` keeps them in
memory, normalized once, which is the most that an app can do; `pictures` is what Flower's own PyTorch quickstart does,
a DataLoader that makes each image a tensor and normalizes it whenever it is taken. Flower's first round pays for
starting processes; the shortest of the later rounds counts, and of ours too. Needs `flwr[simulation]`.
`simulation.py` asks for Flower `--alone`, beside what it measures itself.
"""

import argparse
import json
import os
from functools import cache
from itertools import pairwise
from pathlib import Path
from time import perf_counter

os.environ |= {"RAY_USAGE_STATS_ENABLED": "0", "FLWR_TELEMETRY_ENABLED": "0", "FLWR_DISABLE_UPDATE_CHECK": "1"}

import torch
from flwr.app import ArrayRecord, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import ServerApp
from flwr.serverapp.strategy import FedAvg
from flwr.simulation import run_simulation
from simulation import FLOWER_TARGETS, MODELS, SIZE, TRAINING, as_pictures, our_round
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader

from f2ed.learning import split_samples
from f2ed.learning.datasets import Synthetic
from f2ed.learning.partition import Iid


@cache
def split_data(clients):
    data = Synthetic(train=clients * SIZE, test=10, side=28)()
    return data, split_samples(data.train, Iid()(data.train.labels.numpy(), clients, 0))


def build(name, clients):
    data, _ = split_data(clients)
    return MODELS[name](data.shape, data.classes, 0)


LOADING = ("tensors", "pictures")


def batches(samples, loading):
    """Return the batches of an epoch."""
    if loading == "pictures":
        return DataLoader(as_pictures(samples), batch_size=TRAINING.batch_size, shuffle=True)
    return ((samples.images[rows], samples.labels[rows]) for rows in torch.randperm(SIZE).split(TRAINING.batch_size))


def flower_rounds(name, clients, rounds, loading):
    """Return the seconds of each of Flower's rounds."""
    client_app, server_app, ends = ClientApp(), ServerApp(), []

    @client_app.train()
    def train(message, context):
        torch.set_num_threads(1)
        model = build(name, clients).train()
        model.load_state_dict(message.content["arrays"].to_torch_state_dict())
        mine = split_data(clients)[1][int(context.node_config["partition-id"])].samples
        optimizer = torch.optim.SGD(model.parameters(), lr=TRAINING.lr)
        for images, labels in batches(mine, loading):
            optimizer.zero_grad()
            cross_entropy(model(images), labels).backward()
            optimizer.step()
        arrays, metrics = ArrayRecord(model.state_dict()), MetricRecord({"num-examples": SIZE})
        return Message(RecordDict({"arrays": arrays, "metrics": metrics}), reply_to=message)

    @server_app.main()
    def main(grid, _context):
        arrays = ArrayRecord(build(name, clients).state_dict())
        FedAvg(fraction_train=1.0, fraction_evaluate=0.0, min_available_nodes=clients).start(
            grid=grid, initial_arrays=arrays, num_rounds=rounds, evaluate_fn=lambda *_: ends.append(perf_counter())
        )

    resources = {"client_resources": {"num_cpus": 1, "num_gpus": 0.0}}
    run_simulation(server_app, client_app, num_supernodes=clients, backend_config=resources)
    return [after - before for before, after in pairwise(ends)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", default=list(FLOWER_TARGETS), choices=list(FLOWER_TARGETS))
    parser.add_argument("--clients", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--loading", nargs="+", default=list(LOADING), choices=LOADING)
    parser.add_argument("--alone", action="store_true", help="measure Flower and nothing else")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    found = {}
    for name in args.models:
        theirs = {way: min(flower_rounds(name, args.clients, args.rounds, way)[1:]) for way in args.loading}
        if args.alone:
            found[name] = theirs
            continue
        ours = sum(our_round(name, args.clients, rounds=args.rounds).values())
        ratios = {way: seconds / ours for way, seconds in theirs.items()}
        found[name] = {"f2ed_s": ours, "flower_s": theirs, "ratio": ratios, "wanted": FLOWER_TARGETS[name]}
    if args.json:
        print(json.dumps(found))
        return
    for name, figures in found.items():
        print(f"{name}, {args.clients} clients x {SIZE}: {figures}")


if __name__ == "__main__":
    # Flower's worker processes must be able to import what they run.
    os.environ["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
    import flower_simulation

    flower_simulation.main()
