"""Who is malicious? FedGT's group tests beside FilterL2: python benchmarks/rivals/fedgt.py --rivals FOLDER.

FedGT's setting: MNIST, 15 clients of whom 1 to 5 train on ones that they call seven, logistic regression, 10 rounds;
its tests are done once, in the second round, over 8 overlapping groups of 4 clients. The server has 100 images of its
own and is told the class under attack, as FedGT's is. The decoder in C must be built first, as FedGT's README says.
"""

import argparse
import contextlib
import json
import os
from pathlib import Path

import numpy as np
import torch
from checkouts import FOLDER, imported_from, source_of
from rules import Rival
from this_round import ThisRound, serving

from f2ed.learning.datasets import Mnist
from f2ed.learning.vector import layout
from f2ed.simulation import Simulation, experiment

CLIENTS, GROUPS, ROUNDS, SOURCE, TARGET = 15, 8, 10, 1, 7
HELD_OUT = 100
TESTED_IN = 1
_HASH = "621ab9091a0a14a6"


class FedGt(Rival, frozen=True, tag="rival-fedgt"):
    """Test groups of clients once, leave out from then on those that are found malicious, and average the others."""

    title = "FedGT (its code)"
    paper = "Xhemrishi et al., TIFS 2025"

    silhouette: float = 0.6
    pca: int = 4

    def step(self, updates, this):
        found = this.memory.get("malicious", np.zeros(len(updates), bool))
        if this.number == TESTED_IN:
            found = self._tested(updates, this)
        this.remembered["malicious"] = found
        kept = ~found if not found.all() else found
        return updates[torch.as_tensor(kept)].mean(0)

    def _tested(self, updates, this):
        models = [_named(this.model + row) for row in updates]
        server = Server(this.model, this.held_out)
        with contextlib.chdir(source_of("FedGT")):  # it opens its decoder by a relative path
            test = imported_from("FedGT", "defence.group_test", sha256=_HASH).Group_Test(
                len(updates), GROUPS, beta=0.25
            )
        recall = test.get_group_accuracies(models, server, 10)[2]
        per_label = test.get_pca_components(models, server, self.pca, 10)[5]
        values = test.perform_clustering_and_testing(recall[:, SOURCE], per_label[SOURCE, :, 0], self.silhouette)[0]
        return test.perform_gt(values)[0][0].astype(bool)


class LogisticRegression(torch.nn.Module):
    """FedGT looks for a model of this name."""

    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(784, 10)

    def forward(self, images):
        return self.linear(images.flatten(1))


class Server:
    """What FedGT's tests ask of its server: a mean of models, and how good a model is on the images held out."""

    def __init__(self, vector, held_out):
        self.model, self.held_out = LogisticRegression(), held_out
        self.model.load_state_dict(_named(vector))

    def aggregate_models(self, group, update_server):
        assert not update_server
        return {name: torch.stack([each[name] for each in group]).mean(0) for name in group[0]}

    def evaluate(self, test_data, eval_model):
        assert not test_data
        model = LogisticRegression()
        model.load_state_dict(eval_model)
        images, labels = self.held_out
        with torch.no_grad():
            scores = model(images)
        matrix = np.zeros((10, 10))
        np.add.at(matrix, (labels.numpy(), scores.argmax(1).numpy()), 1)
        right, wanted, given = np.diag(matrix), matrix.sum(1), matrix.sum(0)
        recall, precision = right / wanted, right / np.maximum(given, 1)
        f1 = 2 * precision * recall / np.maximum(precision + recall, 1e-12)
        losses = torch.nn.functional.cross_entropy(scores, labels, reduction="none").numpy()
        per_label = [losses[labels.numpy() == label].mean() for label in range(10)]
        return right.sum() / matrix.sum(), matrix, precision, recall, f1, per_label


def _named(vector):
    return {"linear.weight": vector[:7840].reshape(10, 784).clone(), "linear.bias": vector[7840:].clone()}


RULES = {
    "no defense": {"kind": "mean"},
    "FedGT": FedGt(),
    "FedGT, 1,000 images": FedGt(),
    # FedGT estimates the number of malicious clients; FilterL2 is not told it, either, but the most there may be.
    "FilterL2, a row for each client": {"kind": "filter-l2", "f": 5},
    "FilterL2, 5 shards": {"kind": "filter-l2", "f": 2},
}


def run(rule, malicious, seed, data):
    """Run one federation; return who was found, and how good the model is."""
    shards = 5 if "5 shards" in rule else "none"
    simulation = Simulation(
        experiment(
            {
                "data": "mnist",
                "model": "logistic",
                "clients": CLIENTS,
                "malicious": malicious,
                "shards": shards,
                "secure": False,
                "rounds": ROUNDS,
                "seed": seed,
                "estimator": RULES[rule],
                "attack": {"kind": "label-flip", "source": SOURCE, "target": TARGET} if malicious else "none",
                "training": {"lr": 0.01, "batch_size": 64, "local_epochs": 1},
            }
        ),
        data=data,
    )
    test = simulation.data.test
    # The first test images of each class, which accuracy is not measured on.
    by_class = torch.stack([torch.nonzero(test.labels == label)[:100, 0] for label in range(10)])
    held = by_class[:, : (1000 if "1,000" in rule else HELD_OUT) // 10].flatten()
    left = torch.ones(len(test.labels), dtype=torch.bool)
    left[by_class.flatten()] = False
    state, memory, shape = simulation.start(), {}, layout(simulation.model(simulation.start()))
    weights = np.zeros(CLIENTS)
    while not simulation.ended(state):
        this = ThisRound(
            state.model,
            shape.names,
            tuple(map(tuple, shape.shapes)),
            state.round,
            memory,
            held_out=(test.images[held], test.labels[held]),
        )
        with serving(this):
            state, record = simulation.step(state)
        memory = this.remembered
        if state.round - 1 == TESTED_IN and record.weights is not None:
            for weight, members in zip(record.weights, simulation.header.shards, strict=True):
                weights[list(members)] = weight * len(record.weights)
    with torch.no_grad():
        predicted = simulation.model(state)(test.images).argmax(1)
    ones = left & (test.labels == SOURCE)
    found = None
    if rule.startswith("FedGT"):
        found = np.flatnonzero(memory["malicious"])
    elif rule != "no defense":
        found = np.flatnonzero(weights < 0.5)
    return {
        "rule": rule,
        "malicious": malicious,
        "seed": seed,
        "found": None if found is None else [int(client) for client in found],
        "truth": [int(client) for client in simulation.malicious[:malicious]],
        "accuracy": float((predicted == test.labels)[left].float().mean()),
        "source_recall": float((predicted == test.labels)[ones].float().mean()),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rivals", default=os.environ.get(FOLDER), help="the folder with the checkouts")
    parser.add_argument("--data", type=Path, help="the folder of the data sets")
    parser.add_argument("--out", type=Path, default=Path("results/side_by_side/fedgt.json"))
    parser.add_argument("--seed", type=int, action="append")
    args = parser.parse_args()
    os.environ[FOLDER] = str(Path(args.rivals).resolve())
    data = Mnist().load(args.data)
    rows = []
    for malicious in range(6):
        for seed in args.seed or (0, 1, 2):
            for rule in RULES:
                rows.append(run(rule, malicious, seed, data))
                print(json.dumps(rows[-1]), flush=True)
    args.out.parent.mkdir(parents=True, exist_ok=True)
    args.out.write_text("[\n" + ",\n".join(map(json.dumps, rows)) + "\n]\n", encoding="utf-8")


if __name__ == "__main__":
    main()
