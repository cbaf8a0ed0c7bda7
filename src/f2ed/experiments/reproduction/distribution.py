"""Figure 3 of the paper: updates of clients with few classes each, and the means of shards of such clients.

The paper shows the distribution of weights within each update, and that shard means look alike. Two numbers quantify
that picture. The first asks whether the grouping matters: the share of the variance of all updates that lies between
groups, with a permutation test. Between clients of different classes it is large; between randomly assigned shards it
is what chance gives if shard means are draws from one distribution. The second is the mean Kolmogorov-Smirnov distance
between the weights of two updates.
"""

from collections.abc import Iterator
from itertools import combinations
from typing import final

import msgspec
import numpy as np
import numpy.typing as npt
import torch

from f2ed.core.randomness import stream
from f2ed.experiments.reproduction.comparison import Table
from f2ed.learning import AnyModel, Cohort, Data, Training, TrainingJob, flatten, split_samples
from f2ed.learning.models import Cnn, Mlp
from f2ed.learning.partition import Assigned, Iid, Partition
from f2ed.protocol.sharding import assign_shards

__all__ = ["Distribution", "Share", "distribution", "share_between"]

Matrix = npt.NDArray[np.float64]
Groups = npt.NDArray[np.intp]

_CLIENTS, _GROUPS = 25, 5
_TRIALS = 1999
_UNLIKELY = 0.05


@final
class Share(msgspec.Struct, frozen=True):
    """The share of the variance between groups, what chance gives on average, and how often it gives as much."""

    share: float
    by_chance: float
    p: float


@final
class Distribution(msgspec.Struct, frozen=True, kw_only=True):
    """What Figure 3 shows: five updates of one shard, the five shard means, and two numbers about each."""

    clients: tuple[tuple[float, ...], ...]
    """Weights of the updates of the first shard's clients, those at evenly spread ranks."""
    shards: tuple[tuple[float, ...], ...]
    by_labels: Share
    by_shards: Share
    apart: dict[str, float]
    """The mean distance between the weights of two updates: of clients, of shard means, of clients with all labels."""

    def table(self) -> Table:
        """Return the numbers."""
        rows = [
            (name, f"{100 * it.share:.1f} %", f"{100 * it.by_chance:.1f} %", f"{it.p:.4f}")
            for name, it in (("clients by their labels", self.by_labels), ("clients by their shard", self.by_shards))
        ]
        rows += [(f"two {name}", f"{value:.3f}", "", "") for name, value in self.apart.items()]
        head = ("groups, or pairs", "variance between, or distance", "by chance", "p")
        return Table("Before and after sharding", head, tuple(rows))

    def sentences(self) -> Iterator[str]:
        """Say what the numbers mean."""
        for name, it in (("between clients of different labels", self.by_labels), ("between shards", self.by_shards)):
            verdict = "more than chance gives" if it.p < _UNLIKELY else "no more than chance gives"
            yield (
                f"{100 * it.share:.0f} % of the variance of the updates is {name}: {verdict} "
                f"({100 * it.by_chance:.0f} % on average, p = {it.p:.4f})."
            )
        clients, shards, _ = self.apart.values()
        yield (
            f"The weights of two shard means are {'closer' if shards < clients else 'no closer'} to each other in "
            f"distribution than those of two clients ({shards:.3f} against {clients:.3f})."
        )


def distribution(data: Data, *, seed: int = 0, quick: bool = False, device: str = "cpu") -> Distribution:
    """Train 25 clients once from the same model, five for each pair of labels, and assign them to five shards."""
    model: AnyModel = Mlp() if quick else Cnn()
    few = _updates(data, _by_labels(data, seed), model, seed, device)
    every = _updates(data, Iid()(data.train.labels.numpy(), _CLIENTS, seed), model, seed, device)
    roster = dict.fromkeys(range(_CLIENTS), b"")
    plan = assign_shards(roster, shards=_GROUPS, epoch=0, seed=stream(seed, "deal").bytes(32))
    shard = np.array([plan.shard_of(client) for client in range(_CLIENTS)])
    means = np.stack([few[shard == number].mean(0) for number in range(_GROUPS)])
    first, rng = few[shard == 0], stream(seed, "permutations")
    return Distribution(
        clients=_quantiles(first),
        shards=_quantiles(means),
        by_labels=share_between(few, np.arange(_CLIENTS) % _GROUPS, rng),
        by_shards=share_between(few, shard, rng),
        apart={
            "clients of one shard": _apart(first),
            "shard means": _apart(means),
            "clients that have all labels": _apart(every[:_GROUPS]),
        },
    )


def share_between(rows: Matrix, groups: Groups, rng: np.random.Generator, trials: int = _TRIALS) -> Share:
    """Return the share of the squared distances from the mean that lies between groups, tested by permutation.

    All follows from the inner products of the rows, whatever their length.
    """
    centerd = rows - rows.mean(0)
    gram = centerd @ centerd.T
    found = _between(gram, groups)
    tried = np.array([_between(gram, rng.permutation(groups)) for _ in range(trials)])
    return Share(found, float(tried.mean()), float((1 + (tried >= found - 1e-12).sum()) / (1 + trials)))


def _between(gram: Matrix, groups: Groups) -> float:
    members = np.equal.outer(np.unique(groups), groups).astype(np.float64)
    between = ((members @ gram) * members).sum(1) / members.sum(1)
    return float(between.sum() / np.trace(gram))


def _by_labels(data: Data, seed: int) -> Partition:
    """Give each client samples of two labels, the same for every fifth client."""
    labels = data.train.labels.numpy()
    per_group = data.classes // _GROUPS
    lists: list[tuple[int, ...]] = [()] * _CLIENTS
    for group in range(_GROUPS):
        own = np.flatnonzero((labels >= group * per_group) & (labels < (group + 1) * per_group))
        size = len(labels) // (2 * _CLIENTS)
        shuffled = stream(seed, "group", group).permutation(own)
        for number, client in enumerate(range(group, _CLIENTS, _GROUPS)):
            lists[client] = tuple(map(int, shuffled[number * size : (number + 1) * size]))
    return Assigned(clients=tuple(lists))(labels, _CLIENTS, seed)


def _updates(data: Data, partition: Partition, model: AnyModel, seed: int, device: str) -> Matrix:
    here = data.to(torch.device(device))
    module = model(data.shape, data.classes, seed)
    jobs = [TrainingJob(number, mine, Training()) for number, mine in enumerate(split_samples(here.train, partition))]
    updates = Cohort(module, device=device)(flatten(module).to(device), jobs, seed=seed, round_=0)
    return updates.cpu().numpy().astype(np.float64)


def _apart(rows: Matrix) -> float:
    """Return the mean Kolmogorov-Smirnov distance between the weights of two rows."""
    ordered = np.sort(rows, axis=1)
    return float(np.mean([_ks(a, b) for a, b in combinations(ordered, 2)]))


def _ks(a: Matrix, b: Matrix) -> float:
    every = np.concatenate([a, b])
    return float(
        np.abs(np.searchsorted(a, every, "right") / len(a) - np.searchsorted(b, every, "right") / len(b)).max()
    )


def _quantiles(rows: Matrix) -> tuple[tuple[float, ...], ...]:
    at = np.linspace(0.005, 0.995, 199)
    return tuple(tuple(map(float, np.quantile(row, at))) for row in rows)
