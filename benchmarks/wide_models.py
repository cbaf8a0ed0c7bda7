"""Train the clients of ResNet-18 on CIFAR-10's shape: f2ed's cohort, a plain loop and Flower's simulation engine.

    python benchmarks/wide_models.py --device cuda             100 clients of 500 images, batches of 50
    python benchmarks/wide_models.py --device cuda --flower    Flower's engine too (needs flwr[simulation])
    python benchmarks/wide_models.py --quick                   a tiny network, to see that everything runs

All contenders train one epoch of SGD with momentum on random images (speed does not depend on the pixels), from the
same weights, with the data in the device's memory:

    loop      for each client a copy of the model, an optimizer and a loop over its batches, as an app would write it
    flower    the same function in the ClientApp of Flower's simulation engine, ten clients at a time on one GPU; the
              shortest round after the first counts, with its transport of arrays
    cohort    `f2ed.learning.Cohort`

each in float32, with TF32 allowed, and in bfloat16 with float32 weights (an app's autocast). *Share of peak* is the
arithmetic of all convolutions and dense layers, forward and backward, over the time, as a share of what one large
matrix product reaches in the same precision in the same run.
"""

import argparse
import copy
import json
import os
import subprocess
import sys
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from time import perf_counter

import torch
from timing import table
from torch import nn
from torch.nn.functional import cross_entropy

from f2ed.learning import Cohort, Training, TrainingJob, flatten
from f2ed.learning.client import ClientData
from f2ed.learning.models import ResNet18

SHAPE, CLASSES = (3, 32, 32), 10
PRECISIONS = (None, "tf32", "bf16")
TARGET = 5.0
"""The cohort should be so many times as fast as the loop."""


def settings(args, precision):
    return Training(lr=0.01, batch_size=args.batch, momentum=0.9, precision=precision)


def pool(args):
    draws = torch.Generator().manual_seed(0)
    images = torch.randn(args.size, *SHAPE, generator=draws).to(args.device)
    return images, torch.randint(CLASSES, (args.size,), generator=draws).to(args.device)


@contextmanager
def lowered(precision):
    """Let torch multiply in this precision, as an app would."""
    before = torch.backends.cudnn.allow_tf32, torch.get_float32_matmul_precision()
    torch.backends.cudnn.allow_tf32 = precision is not None
    torch.set_float32_matmul_precision("highest" if precision is None else "high")
    try:
        with torch.autocast("cuda", torch.bfloat16, enabled=precision == "bf16"):
            yield
    finally:
        torch.backends.cudnn.allow_tf32 = before[0]
        torch.set_float32_matmul_precision(before[1])


def train_plainly(model, images, labels, args):
    """Train one client as an app would."""
    client = copy.deepcopy(model).train()
    optimizer = torch.optim.SGD(client.parameters(), lr=0.01, momentum=0.9)
    for rows in torch.randperm(len(labels), device=labels.device).split(args.batch):
        optimizer.zero_grad()
        cross_entropy(client(images[rows]), labels[rows]).backward()
        optimizer.step()
    return client


def by_loop(model, args, clients):
    images, labels = pool(args)
    for _ in range(clients):
        train_plainly(model, images, labels, args)


def timed(action, device):
    if device == "cuda":
        torch.cuda.synchronize()
    start = perf_counter()
    action()
    if device == "cuda":
        torch.cuda.synchronize()
    return perf_counter() - start


def operations(model, device):
    """Return the arithmetic of one image's training step: a multiply-add counts twice, and backward twice forward."""
    found = []

    def count(layer, _, out):
        each = layer.in_features if isinstance(layer, nn.Linear) else layer.weight[0].numel()
        found.append(2 * each * out[0].numel())

    hooks = [m.register_forward_hook(count) for m in model.modules() if isinstance(m, nn.Conv2d | nn.Linear)]
    with torch.no_grad():
        model(torch.zeros(1, *SHAPE, device=device))
    for hook in hooks:
        hook.remove()
    return 3 * sum(found)


def matrix_rate(args, precision):
    """Return the operations per second of one large matrix product."""
    side = 8192 if args.device == "cuda" else 512
    one = torch.randn(side, side, device=args.device)
    one = one.bfloat16() if precision == "bf16" else one
    with lowered(precision):
        for _ in range(3):
            one @ one
        repeats = 10
        return repeats * 2 * side**3 / timed(lambda: [one @ one for _ in range(repeats)], args.device)


def flower_round(args, precision):
    """Return the seconds of the shortest of Flower's rounds but the first."""
    from flwr.app import ArrayRecord, Message, MetricRecord, RecordDict
    from flwr.clientapp import ClientApp
    from flwr.serverapp import ServerApp
    from flwr.serverapp.strategy import FedAvg
    from flwr.simulation import run_simulation

    client_app, server_app, ends = ClientApp(), ServerApp(), []
    data = {}

    @client_app.train()
    def train(message, _context):
        torch.set_num_threads(1)
        if not data:
            data["it"] = pool(args)
        model = build(args)
        model.load_state_dict(message.content["arrays"].to_torch_state_dict())
        with lowered(None if precision == "float32" else precision):
            trained = train_plainly(model.to(args.device), *data["it"], args)
        arrays = ArrayRecord({name: value.cpu() for name, value in trained.state_dict().items()})
        metrics = MetricRecord({"num-examples": args.size})
        return Message(RecordDict({"arrays": arrays, "metrics": metrics}), reply_to=message)

    @server_app.main()
    def main(grid, _context):
        strategy = FedAvg(fraction_train=1.0, fraction_evaluate=0.0, min_available_nodes=args.loop_clients)
        arrays = ArrayRecord(build(args).cpu().state_dict())
        strategy.start(
            grid=grid, initial_arrays=arrays, num_rounds=3, evaluate_fn=lambda *_: ends.append(perf_counter())
        )

    share = 0.1 if args.device == "cuda" else 0.0
    resources = {"client_resources": {"num_cpus": 1, "num_gpus": share}}
    run_simulation(server_app, client_app, num_supernodes=args.loop_clients, backend_config=resources)
    return min([after - before for before, after in pairwise(ends)][1:])


def build(args):
    return ResNet18(width=args.width)(SHAPE, CLASSES, 0).to(args.device)


def measure(args):
    model = build(args)
    work = operations(model, args.device)
    images, labels = pool(args)
    data = ClientData(images, torch.arange(args.size, device=args.device), labels)
    found = []
    chosen = [each for each in PRECISIONS if (each or "float32") in args.precisions]
    for precision in chosen if args.device == "cuda" else (None,):
        peak = matrix_rate(args, precision)
        figures = {}
        with lowered(precision):
            by_loop(model, args, 1)
            figures["loop"] = timed(lambda: by_loop(model, args, args.loop_clients), args.device) / args.loop_clients
        if args.flower:
            figures["flower"] = in_fresh_process(args, precision) / args.loop_clients
        cohort = Cohort(model, device=args.device)
        jobs = [TrainingJob(client, data, settings(args, precision)) for client in range(args.clients)]
        start = flatten(model)

        def train(cohort=cohort, jobs=jobs, start=start):
            cohort(start, jobs, seed=0, round_=0)

        train()
        figures[f"cohort, {cohort.path}"] = min(timed(train, args.device) for _ in range(2)) / args.clients
        for name, seconds in figures.items():
            rate = work * args.size / seconds
            found.append(
                {
                    "precision": precision or "float32",
                    "contender": name,
                    "seconds_per_client": seconds,
                    "round_of_100": 100 * seconds,
                    "times_loop": figures["loop"] / seconds,
                    "tera_per_second": rate / 1e12,
                    "share_of_peak": rate / peak,
                    "peak_tera": peak / 1e12,
                }
            )
    return found


def in_fresh_process(args, precision):
    """Measure Flower in a process of its own, which its workers' start-up cannot disturb."""
    command = [sys.executable, __file__, "--flower-alone", precision or "float32", "--device", args.device]
    for name in ("clients", "loop_clients", "size", "batch", "width"):
        command += [f"--{name.replace('_', '-')}", str(getattr(args, name))]
    own = {"RAY_USAGE_STATS_ENABLED": "0", "FLWR_TELEMETRY_ENABLED": "0", "FLWR_DISABLE_UPDATE_CHECK": "1"}
    path = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(  # noqa: S603  our own file
        command, env=os.environ | own | {"PYTHONPATH": path}, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"Flower's simulation failed: {done.stderr.strip()[-2000:]}")
    return float(done.stdout.strip().splitlines()[-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--clients", type=int, default=100)
    parser.add_argument("--loop-clients", type=int, default=20, help="clients of the loop and of Flower")
    parser.add_argument("--size", type=int, default=500, help="images per client")
    parser.add_argument("--batch", type=int, default=50)
    parser.add_argument("--width", type=int, default=64)
    every = [each or "float32" for each in PRECISIONS]
    parser.add_argument("--precisions", nargs="+", choices=every, default=every)
    parser.add_argument("--flower", action="store_true")
    parser.add_argument("--flower-alone", default="", help=argparse.SUPPRESS)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    if args.quick:
        args.clients, args.loop_clients, args.size, args.batch, args.width = 4, 2, 8, 4, 2
    if args.flower_alone:
        print(flower_round(args, args.flower_alone))
        return
    found = measure(args)
    if args.json:
        print(json.dumps(found))
        return
    names = ("precision", "contender", "s/round of 100", "times the loop", "TFLOP/s", "share of peak")
    rows = [
        (
            each["precision"],
            each["contender"],
            f"{each['round_of_100']:.2f}",
            f"{each['times_loop']:.1f}",
            f"{each['tera_per_second']:.2f}",
            f"{each['share_of_peak']:.0%}",
        )
        for each in found
    ]
    table(names, rows)


if __name__ == "__main__":
    # Flower's worker processes must be able to import what they run.
    import wide_models

    wide_models.main()
