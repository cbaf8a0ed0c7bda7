"""What noise for differential privacy costs: training, from records, and two attacks of a curious server.

For the attacks, four clients with one image each take a step of an untrained dense model, with noise of each size in
their shard mean. *Images* is the share recovered by dividing weights by biases after removing all but the four
strongest directions as noise; the quotient nearest to the true image counts, which a real server would have to guess.
*Membership* is the area under the ROC curve of the strongest attacker: it knows every update, and decides whether one
client's is in a noisy mean. 0.5 is guessing; no attack on one round does better.

The third table is FilterL2 on 25 rows of noise, 10 of them shifted the same way: the weight that those get.
"""

from collections.abc import Iterator, Sequence
from functools import partial
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
from f2ed.learning.datasets.base import image_shape
from f2ed.learning.models import Mlp
from f2ed.protocol.dp import dp_epsilon
from f2ed.protocol.primitives.crypto import Keystream
from f2ed.protocol.primitives.discrete_gaussian import discrete_gaussian
from f2ed.protocol.quantization.encoding import Encoding
from f2ed.records import RunLog
from f2ed.records.grading import LATE_ROUNDS, late_contaminated_weight

__all__ = ["attack_table", "noise_speed", "shift_table", "training_table"]

MULTIPLIERS = (0.0, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0)
SHIFTS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1.0)
MEMBERS, TRIALS, DRAWS, LR = 4, 10, 10, 0.1


def training_table(logs: Sequence[RunLog]) -> Iterator[str]:
    """Yield the rows of accuracy, success and weights by noise multiplier."""
    runs: dict[str, dict[tuple[str, str], list[RunLog]]] = {}
    for log in logs:
        arm = log.header.arm
        runs.setdefault(arm["dp"], {}).setdefault((arm["attack"], arm["estimator"]), []).append(log)
    columns = ("none", "mean"), ("none", "filter-l2"), ("accuracy attack", "mean"), ("accuracy attack", "filter-l2")
    yield (
        "| noise | epsilon | no attack: mean | FilterL2 | accuracy attack: mean | FilterL2 "
        "| … weight on contaminated shards | backdoor success: mean | FilterL2 | … weight on contaminated shards |"
    )
    yield "|" + "---|" * 10
    for noise in sorted(runs, key=lambda label: 0.0 if label == "none" else float(label)):
        cells = runs[noise]
        spent_epsilon = cells["none", "mean"][0].rounds[-1].max_dp_epsilon
        row = [noise, "∞" if spent_epsilon is None else _rounded(spent_epsilon)]
        row += [f"{100 * _last(cells[column], 'accuracy'):.1f} %" for column in columns]
        row.append(_weight(cells["accuracy attack", "filter-l2"]))
        row += [f"{100 * _last(cells['backdoor', estimator], 'success'):.1f} %" for estimator in ("mean", "filter-l2")]
        row.append(_weight(cells["backdoor", "filter-l2"]))
        yield f"| {' | '.join(row)} |"


def _rounded(number: float) -> str:
    return f"{float(f'{number:.2g}'):,.0f}" if number >= 10 else f"{number:.2g}"


def _last(logs: Sequence[RunLog], what: str) -> float:
    """Return the mean over the last rounds and all seeds."""
    return float(np.mean([getattr(record, what) for log in logs for record in log.rounds[-LATE_ROUNDS:]]))


def _weight(logs: Sequence[RunLog]) -> str:
    """Return the weight on contaminated shards in the last rounds, and the share of shards that they are."""
    late = [weight for log in logs if (weight := late_contaminated_weight(log.rounds)) is not None]
    records = [record for log in logs for record in log.rounds[-LATE_ROUNDS:]]
    share = np.mean([len(record.contaminated or ()) / len(record.weights or (0,)) for record in records])
    return f"{np.mean(late):.2f} of {share:.2f}"


def attack_table() -> Iterator[str]:
    """Yield the rows of what two attacks of a curious server recover, by noise multiplier."""
    data = Mnist()(None)
    model = Mlp((256,))(data.shape, data.classes, 0)
    dimension = sum(each.numel() for each in model.parameters())
    yield f"| noise | epsilon of one round | images, dense model of {dimension:,} weights | membership (AUC) |"
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
            seen += (psnr(true, match(true, _quotients(view, image_shape(data.shape)))) > RECOGNIZED).tolist()
            longest = max(updates, key=lambda each: float(np.linalg.norm(each)))
            rest = [np.zeros_like(longest) if each is longest else each for each in updates]
            known = np.mean(rest, axis=0)
            inside += [float((opened(updates) - known) @ longest) for _ in range(DRAWS)]
            outside += [float((opened(rest) - known) @ longest) for _ in range(DRAWS)]
        spent_epsilon = _rounded(dp_epsilon(1 / (2 * multiplier**2), 1e-5)) if multiplier else "∞"
        row = [f"{multiplier:g}" if multiplier else "none", spent_epsilon, f"{100 * np.mean(seen):.0f} %"]
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


def shift_table() -> Iterator[str]:
    """Yield the rows of the weight that FilterL2 gives to shifted rows of noise."""
    rng = stream(0, "privacy dial", "blindness")
    rows, shifted, dimension = 25, 10, 25_450
    direction = np.ones(dimension) / np.sqrt(dimension)
    weights = []
    for shift in SHIFTS:
        found = []
        for _ in range(TRIALS):
            noise = rng.standard_normal((rows, dimension)) / np.sqrt(dimension)
            noise[:shifted] += shift * direction
            weight = FilterL2(contamination=shifted / rows)(noise).weights
            found.append(float(np.sum(weight[:shifted])) if weight is not None else np.nan)
        weights.append(f"{np.mean(found):.2f}")
    yield f"| shift, as a fraction of the noise's norm | {' | '.join(map(str, SHIFTS))} |"
    yield "|" + "---|" * (len(SHIFTS) + 1)
    yield f"| weight on the {shifted} shifted of {rows} | {' | '.join(weights)} |"


def noise_speed() -> str:
    """Return the CPU time of drawing noise, the best of five."""
    numbers, sampler = np.zeros(1_000_000, np.int32), discrete_gaussian(1e5)
    spent = []
    for _ in range(5):
        since = process_time()
        sampler.add(numbers, Keystream(bytes(32)))
        spent.append(process_time() - since)
    return f"drawing noise: {min(spent) / len(numbers) * 1e9:.0f} ns of CPU time per coordinate"
