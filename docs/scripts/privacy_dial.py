"""What the privacy dial does: to training, from the records of a run, and to two attacks of a curious server.

    f2ed run experiments/privacy_dial.toml --out results
    python docs/scripts/privacy_dial.py results/privacy_dial

The first table is read from the records. For the second, four clients with one image each take a step of an untrained
dense model, with noise of each size in their shard's mean. *Images* is the share recovered by dividing weights by
biases, after all but the four strongest directions were taken for noise; of all quotients the one nearest to the true
image counts, which a real server would have to guess. *Told apart* is the area under the curve of the strongest
attacker there is: it knows every update, and asks of a noisy mean whether one client's is in it. 0.5 is guessing; no
attack on one round does better.

The third is FilterL2 on 25 rows of noise, 10 of them shifted the same way: the weight that those get.
"""

import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from time import process_time

import numpy as np
import torch

from f2ed.audit.images import RECOGNIZED, match, psnr
from f2ed.audit.inversion import first_dense
from f2ed.audit.membership import auc
from f2ed.audit.server_view import ServerView, as_pixels, draw_shard, opened_mean, update
from f2ed.core.randomness import stream
from f2ed.estimators import FilterL2
from f2ed.learning.datasets import Mnist
from f2ed.learning.models import Mlp
from f2ed.protocol.dp import dp_epsilon
from f2ed.protocol.primitives.crypto import Keystream
from f2ed.protocol.primitives.discrete_gaussian import discrete_gaussian
from f2ed.protocol.quantization.encoding import Encoding
from f2ed.records import RunLog, read_all

MULTIPLIERS = (0.0, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0)
SHIFTS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1.0)
MEMBERS, TRIALS, DRAWS, LR = 4, 10, 10, 0.1


def main() -> None:
    """Print both tables as Markdown."""
    lines = [*_training(read_all(Path(sys.argv[1]))), "", *_attacks(), "", *_blindness(), "", _speed()]
    sys.stdout.write("\n".join(lines) + "\n")


def _training(logs: list[RunLog]) -> Iterator[str]:
    runs: dict[str, dict[tuple[str, str], list[RunLog]]] = {}
    for log in logs:
        arm = log.header.arm
        runs.setdefault(arm["dp"], {}).setdefault((arm["attack"], arm["estimator"]), []).append(log)
    columns = ("none", "mean"), ("none", "filter-l2"), ("accuracy attack", "mean"), ("accuracy attack", "filter-l2")
    yield (
        "| noise | epsilon | no attack: mean | FilterL2 | accuracy attack: mean | FilterL2 "
        "| … weight on attacked shards | backdoor success: mean | FilterL2 | … weight on attacked shards |"
    )
    yield "|" + "---|" * 10
    for noise in sorted(runs, key=lambda label: 0.0 if label == "none" else float(label)):
        cells = runs[noise]
        told = cells["none", "mean"][0].rounds[-1].max_dp_epsilon
        row = [noise, "∞" if told is None else _rounded(told)]
        row += [f"{100 * _last(cells[column], 'accuracy'):.1f} %" for column in columns]
        row.append(_believed(cells["accuracy attack", "filter-l2"]))
        row += [f"{100 * _last(cells['backdoor', estimator], 'success'):.1f} %" for estimator in ("mean", "filter-l2")]
        row.append(_believed(cells["backdoor", "filter-l2"]))
        yield f"| {' | '.join(row)} |"


def _rounded(number: float) -> str:
    return f"{float(f'{number:.2g}'):,.0f}" if number >= 10 else f"{number:.2g}"


def _last(logs: list[RunLog], what: str) -> float:
    """Return the mean over the last five rounds and all seeds."""
    return float(np.mean([getattr(record, what) for log in logs for record in log.rounds[-5:]]))


def _believed(logs: list[RunLog]) -> str:
    """Return the weight that attacked shards got, and the share of shards that they are."""
    records = [record for log in logs for record in log.rounds]
    share = np.mean([len(record.contaminated) / len(record.weights or ()) for record in records])
    return f"{np.mean([record.contaminated_weight for record in records]):.2f} of {share:.2f}"


def _attacks() -> Iterator[str]:
    data = Mnist()(None)
    model = Mlp((256,))(data.shape, data.classes, 0)
    dimension = sum(each.numel() for each in model.parameters())
    yield f"| noise | epsilon of one round | images, dense model of {dimension:,} weights | told apart |"
    yield "|---|---|---|---|"
    for multiplier in MULTIPLIERS:
        rng = stream(0, "privacy dial", str(multiplier))
        seen: list[float] = []
        inside: list[float] = []
        outside: list[float] = []
        for _ in range(TRIALS):
            shard = draw_shard(data, MEMBERS, 1, rng)
            updates = [update(model, samples, lr=LR) for samples in shard]
            quiet = Encoding(1.0, max(float(np.linalg.norm(each)) for each in updates))
            encoding = quiet.noisy(multiplier, coordinates=dimension, carriers=MEMBERS)
            opened = partial(opened_mean, rng=rng, encoding=encoding)
            true = as_pixels(torch.cat([samples.images for samples in shard]), data.black, data.white)
            view = ServerView(torch.from_numpy(opened(updates)), model, MEMBERS, 1, LR, 1, data.black, data.white)
            seen += (psnr(true, match(true, _quotients(view, data.shape))) > RECOGNIZED).tolist()
            longest = max(updates, key=lambda each: float(np.linalg.norm(each)))
            rest = [np.zeros_like(longest) if each is longest else each for each in updates]
            known = np.mean(rest, axis=0)
            inside += [float((opened(updates) - known) @ longest) for _ in range(DRAWS)]
            outside += [float((opened(rest) - known) @ longest) for _ in range(DRAWS)]
        told = _rounded(dp_epsilon(1 / (2 * multiplier**2), 1e-5)) if multiplier else "∞"
        row = [f"{multiplier:g}" if multiplier else "none", told, f"{100 * np.mean(seen):.0f} %"]
        yield f"| {' | '.join([*row, f'{auc(np.array(inside), np.array(outside)):.2f}'])} |"


def _quotients(view: ServerView, shape: tuple[int, int, int]) -> np.ndarray:
    """Return every neuron's weights over its bias, as images, from as many directions as there are samples."""
    layer = first_dense(view.model)
    both = torch.cat([view.part(f"{layer}.weight"), view.part(f"{layer}.bias")[:, None]], dim=1).double()
    left, sizes, right = torch.linalg.svd(both, full_matrices=False)
    some = view.samples
    kept = (left[:, :some] * sizes[:some]) @ right[:some]
    kept = kept[kept[:, -1].abs() > 1e-4 * kept[:, -1].abs().max()]
    return as_pixels(kept[:, :-1] / kept[:, -1:], view.black, view.white).clip(0, 1).reshape(-1, *shape)


def _blindness() -> Iterator[str]:
    rng = stream(0, "privacy dial", "blindness")
    rows, shifted, dimension = 25, 10, 25_450
    direction = np.ones(dimension) / np.sqrt(dimension)
    weights = []
    for shift in SHIFTS:
        found = []
        for _ in range(TRIALS):
            noise = rng.standard_normal((rows, dimension)) / np.sqrt(dimension)
            noise[:shifted] += shift * direction
            found.append(float(np.sum(FilterL2(contamination=shifted / rows)(noise).weights[:shifted])))
        weights.append(f"{np.mean(found):.2f}")
    yield f"| shift, as a fraction of the noise's norm | {' | '.join(map(str, SHIFTS))} |"
    yield "|" + "---|" * (len(SHIFTS) + 1)
    yield f"| weight on the {shifted} shifted of {rows} | {' | '.join(weights)} |"


def _speed() -> str:
    """Return what drawing noise takes, as time of a core, the best of five."""
    numbers, sampler = np.zeros(1_000_000, np.int32), discrete_gaussian(1e5)
    spent = []
    for _ in range(5):
        since = process_time()
        sampler.add(numbers, Keystream(bytes(32)))
        spent.append(process_time() - since)
    return f"drawing noise: {min(spent) / len(numbers) * 1e9:.0f} ns of a core for each coordinate"


if __name__ == "__main__":
    main()
