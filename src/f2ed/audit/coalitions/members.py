"""Labels and membership: what the server reads from a sum, and the judge with clients from its matrix, by name."""

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from f2ed.audit.coalitions.cohort import LR, HelpedRound, Vectors
from f2ed.audit.coalitions.findings import CoalitionFinding, Target
from f2ed.audit.findings import Interval, interval_of, interval_of_mean
from f2ed.audit.inversion import invert
from f2ed.audit.label_inference import infer_labels, overlap
from f2ed.audit.membership import auc, span_scores
from f2ed.audit.server_view import update
from f2ed.core.randomness import stream
from f2ed.learning.datasets.base import image_shape

__all__ = ["label_findings", "membership_findings"]

_OTHERS = 500
_TARGETS = 10


def label_findings(it: HelpedRound, shard: int, sketch: str) -> Iterator[CoalitionFinding]:
    """Yield label counts from sums, and the labels of single clients from probes at the last bias."""
    draws, classes = stream(it.seed, "intervals", "labels", it.name), it.data.classes
    sums: dict[str, list[tuple[Sequence[int], NDArray[np.float32]]]] = {}
    sums[f"S, shards of {shard}: counts"] = [(some, it.shard_mean(some)) for some in it.shards(shard)]
    opened = it.opened()
    if not isinstance(opened, str):
        sums[f"S, mean of {len(opened[1])}: counts"] = [(opened[1], opened[0])]
    for name, means in sums.items():
        shares = [_counted(it, some, mean) for some, mean in means]
        guess = float(np.mean([_by_chance(it, some) for some, _ in means]))
        yield _finding(it, "labels", name, "share found", interval_of_mean(shares, draws), guess)
    if len(it.samples[0]) == 1:
        yield _neighbors(it, sketch, draws)
    others = range(it.clients - classes)
    sent = []
    for number in range(classes):
        row = np.zeros(len(it.updates[0]), np.float32)
        row[len(row) - classes + number] = it.terms.clip_norm
        sent.append(it.encode(row, it.clients + number))
    rows = [*it.numbers[: len(others)], *sent]
    for blur, seen in ((sketch, it.judge_gram(rows)), ("exact G", it.exact_gram(rows))):
        biases = seen[: len(others), len(others) :] / it.terms.clip_norm
        shares = [_by_name(it, client, found) for client, found in zip(others, biases, strict=True)]
        name = f"J + {classes} clients, probing the last bias, {blur}: by name"
        guess = float(np.mean([_by_chance(it, [client]) for client in others]))
        yield _finding(it, "labels", name, "share found", interval_of_mean(shares, draws), guess)


def membership_findings(it: HelpedRound, shard: int, sketch: str) -> Iterator[CoalitionFinding]:
    """Yield whether an image is in a sum, and whether a client has it: a colluder sends the image's own update."""
    draws = stream(it.seed, "intervals", "membership", it.name)
    others = it.data.test.images[:_OTHERS]
    inside, outside = [], []
    for some in it.shards(shard):
        view = it.view(it.shard_mean(some), len(some))
        inside.append(span_scores(view, _images(it, some)))
        outside.append(span_scores(view, others[:50]))
    found = interval_of((np.concatenate(inside), np.concatenate(outside)), auc, draws)
    yield _finding(it, "membership", f"S, shards of {shard}: in the shard", "AUC", found, 0.5)
    opened = it.opened()
    if not isinstance(opened, str):
        mean, kept = opened
        view = it.view(mean, len(kept))
        found = interval_of((span_scores(view, _images(it, kept)), span_scores(view, others)), auc, draws)
        yield _finding(it, "membership", f"S, mean of {len(kept)}: in the sum", "AUC", found, 0.5)
    victims = it.clients - _TARGETS
    sent = []
    for number in range(_TARGETS):
        own = it.samples[number]
        row = update(it.model, own.take(torch.tensor([0])), lr=LR)
        sent.append(it.encode(row * (it.terms.clip_norm / np.linalg.norm(row)), it.clients + number))
    gram = it.judge_gram([*it.numbers[:victims], *sent])
    lengths = np.sqrt(gram.diagonal()[:victims].clip(1e-30))
    scores = gram[victims:, :victims] / lengths / it.terms.clip_norm
    has = np.eye(_TARGETS, victims, dtype=bool)
    found = interval_of((scores[has], scores[~has]), auc, draws)
    name = f"J + {_TARGETS} clients, {sketch}: held by this client"
    yield _finding(it, "membership", name, "AUC", found, 0.5)


def _neighbors(it: HelpedRound, sketch: str, draws: np.random.Generator) -> CoalitionFinding:
    """Return how well the judge alone, without the model, tells which clients have the same label."""
    labels = np.array([int(some.labels[0]) for some in it.samples])
    gram = it.judge_gram(it.numbers)
    lengths = np.sqrt(gram.diagonal().clip(1e-30))
    near = gram / lengths / lengths[:, None] - 2 * np.eye(it.clients)
    same = labels[near.argmax(axis=1)] == labels
    luck = float(np.mean(labels[:, None] == labels))
    name = f"J alone, {sketch}: the nearest client's label is the same"
    return _finding(it, "labels", name, "share of clients", interval_of_mean(same, draws), luck)


def _counted(it: HelpedRound, clients: Sequence[int], mean: NDArray[np.floating]) -> float:
    """Return the share of labels found in a sum, with the help of the images found in it."""
    view, shape = it.view(mean, len(clients)), image_shape(it.data.shape)
    rng = stream(it.seed, "audit", "labels", clients[0])
    return overlap(_true_counts(it, clients), infer_labels(view, shape, rng, invert(view, shape)))


def _by_name(it: HelpedRound, client: int, bias: Vectors) -> float:
    """Return the share of a client's labels found from what its update has at the last bias."""
    true = _true_counts(it, [client])
    if true.sum() == 1:
        # Of one sample, only the label's own bias grows.
        return float(true[bias.argmax()])
    row = np.zeros(len(it.updates[0]), np.float32)
    row[-len(bias) :] = bias
    rng = stream(it.seed, "audit", "labels", client)
    return overlap(true, infer_labels(it.view(row, 1), image_shape(it.data.shape), rng))


def _by_chance(it: HelpedRound, clients: Sequence[int]) -> float:
    true = _true_counts(it, clients)
    lots = stream(it.seed, "audit", "chance", clients[0]).integers(it.data.classes, size=int(true.sum()))
    return overlap(true, np.bincount(lots, minlength=it.data.classes))


def _true_counts(it: HelpedRound, clients: Sequence[int]) -> NDArray[np.int64]:
    labels = torch.cat([it.samples[client].labels for client in clients]).numpy()
    return np.bincount(labels, minlength=it.data.classes)


def _images(it: HelpedRound, clients: Sequence[int]) -> torch.Tensor:
    return torch.cat([it.samples[client].images for client in clients])


def _finding(
    it: HelpedRound, target: Target, coalition: str, metric: str, found: Interval, guess: float | None
) -> CoalitionFinding:
    return CoalitionFinding(target=target, coalition=coalition, model=it.name, metric=metric, found=found, guess=guess)
