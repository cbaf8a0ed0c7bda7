"""Benchmark the training of many clients, and whole simulated rounds, against the loops and the engine they replace.

    python benchmarks/simulation.py                  the paper's CNN and an MLP, 100 clients of 600 samples
    python benchmarks/simulation.py --quick          fewer clients (ratios are noisier)
    python benchmarks/simulation.py --device cuda    on a GPU
    python benchmarks/simulation.py --json           one JSON document instead of tables

All contenders train the same clients on the same synthetic images (28 x 28, ten classes) for one epoch of SGD in
batches of ten, from the same weights:

    cohort          `f2ed.learning.Cohort`, which chooses its path automatically
    sequential      `f2ed.learning.LocalTrainer`, one client after another, tensors in memory
    authors' style  a copy of the model, a DataLoader and an optimizer per client; every image is converted to a picture
                    (if Pillow is installed) and a tensor, and normalized when it is loaded, like torchvision's MNIST
                    with its transforms

Slow contenders train fewer clients, enough for a stable figure; all figures are per sample. Contenders take turns,
and the best repeat counts. Other work on the machine slows the loops more than the cohort (torch's threads wait for
each other), so the share of the processors that other processes used during the best run is printed too: do not quote
ratios where it exceeds a few percent.

A whole round has shards of four, real masks and FilterL2; the fastest round after the first counts, without its
evaluation. *Protection* is the share of it that is not training: encode, mask, sum, decode and
estimate. On a CPU, and where `flwr[simulation]` is installed, the same work is done by Flower's simulation engine with
plain FedAvg, once with all data as tensors in memory and once as its quickstart loads them (flower_simulation.py).
"""

import argparse
import copy
import importlib.util
import json
import os
import platform
from collections.abc import Callable
from pathlib import Path
from time import perf_counter, process_time
from typing import NamedTuple

import numpy as np
import torch
from timing import in_fresh_process, table
from torch import nn
from torch.utils.data import DataLoader, Dataset

try:
    from PIL import Image
except ModuleNotFoundError:
    Image = None

from f2ed.learning import Cohort, LocalTrainer, Training, TrainingJob, TrainingKey, flatten, split_samples
from f2ed.learning.datasets import Data, Samples, Synthetic
from f2ed.learning.models import Cnn, Logistic, Mlp
from f2ed.learning.partition import Iid
from f2ed.simulation import simulate

MODELS = {"cnn": Cnn(), "mlp": Mlp(), "logistic": Logistic()}
TRAINING = Training(lr=0.01, batch_size=10, local_epochs=1)
MEAN, DEVIATION = 0.1307, 0.3081
SIZE = 600
"""Samples per client."""
TARGETS = {("cpu", "cnn"): 2.3, ("cpu", "mlp"): 20.0, ("cuda", "cnn"): 25.0}
FLOWER_TARGETS = {"cnn": 2.0, "mlp": 10.0}
PROTECTION_TARGETS = {"cnn": 0.05}


class Pictures(Dataset):
    """Images and labels as byte tensors; each is converted to a picture and a normalized tensor when it is loaded."""

    def __init__(self, pixels: torch.Tensor, labels: torch.Tensor) -> None:
        self.pixels, self.labels = pixels, labels

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, at: int) -> tuple[torch.Tensor, int]:
        pixels, label = self.pixels[at], int(self.labels[at])
        picture = Image.fromarray(pixels.numpy()) if Image else pixels.numpy()
        return normalize(to_tensor(np.array(picture, np.uint8, copy=True)), (MEAN,), (DEVIATION,)), label


def to_tensor(picture: np.ndarray) -> torch.Tensor:
    """Convert like torchvision's `ToTensor`: height x width x channels of bytes become floats in [0, 1]."""
    image = torch.from_numpy(picture)
    image = image.view(picture.shape[0], picture.shape[1], 1)
    return image.permute((2, 0, 1)).contiguous().to(dtype=torch.get_default_dtype()).div(255)


def normalize(image: torch.Tensor, mean: tuple[float, ...], deviation: tuple[float, ...]) -> torch.Tensor:
    """Normalize like torchvision's `Normalize`: check, copy, shift and divide."""
    image = image.clone()
    shift, scale = torch.as_tensor(mean, dtype=image.dtype), torch.as_tensor(deviation, dtype=image.dtype)
    if (scale == 0).any():
        raise ValueError("a deviation of zero")
    return image.sub_(shift.view(-1, 1, 1)).div_(scale.view(-1, 1, 1))


def authors_style(model: nn.Module, pictures: list[Pictures], device: str) -> list[np.ndarray]:
    """Train client after client as the paper's released script does; return the updates."""
    updates = []
    for mine in pictures:
        client = copy.deepcopy(model).train()
        optimizer = torch.optim.SGD(client.parameters(), lr=TRAINING.lr)
        for images, labels in DataLoader(mine, batch_size=TRAINING.batch_size, shuffle=True):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(client(images.to(device)), labels.to(device))
            loss.backward()
            optimizer.step()
        before, after = model.state_dict(), client.state_dict()
        updates.append(np.concatenate([(after[name] - before[name]).cpu().numpy().ravel() for name in before]))
    return updates


class Timing(NamedTuple):
    """Seconds, and the share of the processors that other processes used meanwhile."""

    seconds: float
    others: float


def timed(action: Callable[[], object], device: str) -> Timing:
    busy, mine, start = processors_busy(), process_time(), perf_counter()
    action()
    if device == "cuda":
        torch.cuda.synchronize()
    seconds = perf_counter() - start
    others = processors_busy() - busy - (process_time() - mine)
    return Timing(seconds, max(0.0, others / seconds / (os.cpu_count() or 1)))


def processors_busy() -> float:
    """Return the busy seconds of all processors together; zero where the system does not report them."""
    try:
        with open("/proc/stat", encoding="ascii") as file:  # noqa: PTH123  a file of the system
            fields = [int(field) for field in file.readline().split()[1:]]
    except OSError:
        return 0.0
    return (sum(fields) - fields[3] - fields[4]) / os.sysconf("SC_CLK_TCK")


def contenders(model: nn.Module, data: Data, clients: int, slow: int, device: str):
    """Return what to run: name, action and the number of clients it trains."""
    train = data.train.to(device)
    data_of_clients = split_samples(train, Iid()(data.train.labels.numpy(), clients, 0))
    jobs = [TrainingJob(number, mine, TRAINING) for number, mine in enumerate(data_of_clients)]
    start, cohort, local = flatten(model), Cohort(model, device=device), LocalTrainer(model)
    pictures = [as_pictures(mine.samples.to("cpu")) for mine in data_of_clients[:slow]]

    def sequential() -> None:
        for job in jobs[:slow]:
            local.train(start, job, TrainingKey(0, 0, job.client))

    yield "cohort", lambda: cohort(start, jobs, seed=0, round_=0), clients
    yield "sequential", sequential, slow
    yield "authors' style", lambda: authors_style(model, pictures, device), slow
    yield cohort, None, 0


def as_pictures(samples: Samples) -> Pictures:
    return Pictures((samples.images[:, 0] * 255).byte(), samples.labels)


def measure(name: str, args: argparse.Namespace) -> dict[str, object]:
    clients = ({"cnn": 12} if args.device == "cpu" else {}).get(name, 40) if args.quick else 100
    slow = {"cnn": 1 if args.quick else 6}.get(name, 5 if args.quick else 30)
    data = Synthetic(train=clients * SIZE, test=10, side=28)()
    model = MODELS[name](data.shape, data.classes, 0).to(args.device)
    *actions, (cohort, _, _) = contenders(model, data, clients, slow, args.device)
    for _, action, _ in actions:  # the first run includes choosing the path, compilation and cold caches
        action()
    best: dict[str, Timing] = {}
    for _ in range(args.repeats):
        for label, action, _ in actions:
            best[label] = min(best.get(label, Timing(float("inf"), 0)), timed(action, args.device))
    rates = {label: trained * SIZE / best[label].seconds for label, _, trained in actions}
    return {
        "model": name,
        "path": cohort.path,
        "parameters": cohort.layout.dimension,
        "samples_per_second": {label: round(rate) for label, rate in rates.items()},
        "epoch_of_100_clients_of_600_s": {label: round(60_000 / rate, 3) for label, rate in rates.items()},
        "others_used": {label: round(timing.others, 3) for label, timing in best.items()},
        "times_sequential": round(rates["cohort"] / rates["sequential"], 2),
        "times_authors_style": round(rates["cohort"] / rates["authors' style"], 2),
        "target": TARGETS.get((args.device, name)),
        "round": whole_round(name, clients, args),
    }


def whole_round(name: str, clients: int, args: argparse.Namespace) -> dict[str, object]:
    seconds = our_round(name, clients, device=args.device)
    flower: dict[str, float] = {}
    if args.device == "cpu" and name in FLOWER_TARGETS and all(map(importlib.util.find_spec, ("flwr", "ray"))):
        script = Path(__file__).with_name("flower_simulation.py")
        flower = in_fresh_process(script, "--alone", "--json", "--clients", clients, "--models", name)[name]
    whole = sum(seconds.values())
    return {
        "clients": clients,
        "shards": clients // 4,
        "seconds": seconds,
        "whole_s": whole,
        "protection": 1 - seconds["train"] / whole,
        "protection_target": PROTECTION_TARGETS.get(name) if args.device == "cpu" else None,
        "flower_s": flower,
        "flower_to_ours": {way: theirs / whole for way, theirs in flower.items()},
        "flower_target": FLOWER_TARGETS.get(name) if flower else None,
    }


def our_round(name: str, clients: int, *, rounds: int = 3, device: str = "cpu") -> dict[str, float]:
    """Return the seconds of each stage of our fastest round after the first."""
    records = simulate(
        data={"kind": "synthetic", "train": clients * SIZE, "test": 10, "side": 28},
        model=MODELS[name],
        training=TRAINING,
        clients=clients,
        malicious=0,
        shards=clients // 4,
        estimator={"kind": "filter-l2", "contamination": 0.1},
        rounds=rounds,
        device=device,
    )
    shortest = min((record.seconds for record in records if record.round), key=lambda s: s.total - s.evaluate)
    return {stage: getattr(shortest, stage) for stage in ("train", "protect", "sum", "estimate")}


def machine(device: str) -> dict[str, object]:
    return {
        "device": torch.cuda.get_device_name() if device == "cuda" else platform.processor() or platform.machine(),
        "cores": len(os.sched_getaffinity(0)),
        "load": os.getloadavg()[0],
        "pillow": Image is not None,
        "torch": torch.__version__,
        "python": platform.python_version(),
    }


def show(found: dict[str, object]) -> None:
    print(", ".join(f"{key} {value}" for key, value in found["machine"].items()))
    print(f"\n### Training: samples per second, {SIZE} samples a client\n")
    table(
        [
            "model",
            "path",
            "f2ed",
            "sequential",
            "authors' style",
            "/ sequential",
            "/ authors' style",
            "target",
            "others used",
        ],
        [
            [
                f"{row['model']} ({row['parameters']:,} parameters)",
                row["path"],
                *(f"{rate:,}" for rate in row["samples_per_second"].values()),
                *(row["times_sequential"], row["times_authors_style"], row["target"]),
                f"{max(row['others_used'].values()):.0%}",
            ]
            for row in found["models"]
        ],
    )
    print("### A whole round with masks and FilterL2: seconds\n")
    table(
        [
            "model",
            "clients",
            "shards",
            "f2ed",
            "training",
            "protection",
            "target below",
            "Flower, FedAvg: tensors",
            "/ f2ed",
            "Flower, FedAvg: quickstart",
            "/ f2ed",
            "target",
        ],
        [
            [
                *(row["model"], each["clients"], each["shards"], each["whole_s"], each["seconds"]["train"]),
                f"{each['protection']:.1%}",
                f"{each['protection_target']:.0%}" if each["protection_target"] else None,
                *(
                    each[figure].get(way)
                    for way in ("tensors", "pictures")
                    for figure in ("flower_s", "flower_to_ours")
                ),
                each["flower_target"],
            ]
            for row in found["models"]
            for each in [row["round"]]
        ],
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer clients")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--models", nargs="+", default=["cnn", "mlp", "logistic"], choices=tuple(MODELS))
    parser.add_argument("--repeats", type=int, default=3)
    args = parser.parse_args()
    found = {"machine": machine(args.device), "models": [measure(name, args) for name in args.models]}
    if args.json:
        print(json.dumps(found, indent=2))
    else:
        show(found)


if __name__ == "__main__":
    main()
