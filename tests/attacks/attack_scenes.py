"""Attacker views and malicious clients small enough to reason about."""

from dataclasses import dataclass

import numpy as np

from f2ed.attacks import (
    NO_OVERRIDES,
    AttackerView,
    EvaluationData,
    Examples,
    MaliciousClients,
    Palette,
    TrainingOverrides,
)
from f2ed.estimators import FilterL2

N, M, D = 20, 5, 41
TENSORS = (10, 20, 11)
SHARDS = ((0, 4, 8, 12), (1, 5, 9, 13), (2, 6, 10, 14), (3, 7, 11, 15), (16, 17, 18, 19))
MALICIOUS = (16, 3, 7, 1, 19)  # two share shard 3, two share shard 4, one is alone in shard 1
ALONE = tuple((client,) for client in range(N))


def view(
    *,
    full=True,
    shards=SHARDS,
    malicious=MALICIOUS,
    seed=0,
    kind=np.float32,
    estimator=None,
    d=D,
    current=3,
    spread=0.5,
):
    """Honest updates around a common mean, on the malicious clients too."""
    rng = np.random.default_rng(seed)
    n = sum(map(len, shards))
    updates = (rng.normal(size=(n, d)) * spread + rng.normal(size=d)).astype(kind)
    honest = sorted(set(range(n)) - set(malicious))
    return AttackerView(
        own=updates[list(malicious)],
        benign=updates[honest] if full else None,
        model=rng.normal(size=d).astype(kind),
        estimator=estimator or FilterL2(0.25),
        shards=shards,
        malicious=malicious,
        tensors=TENSORS if d == D else (d,),
        round=current,
        rng=np.random.default_rng(seed + 1),
    )


def shard_means(seen, sent):
    """What the server would open if the malicious clients sent this."""
    updates = dict(zip(seen.malicious, sent, strict=True)) | dict(zip(seen.honest, seen.benign, strict=True))
    return np.stack([np.mean([updates[client] for client in members], axis=0) for members in seen.shards])


def contaminated(seen):
    return [index for index, members in enumerate(seen.shards) if set(members) & set(seen.malicious)]


@dataclass
class Softmax:
    """Softmax regression on flat images: the smallest trainable model."""

    model: np.ndarray
    classes: int
    honest: TrainingOverrides
    calls: list

    def __call__(self, data, *, overrides=NO_OVERRIDES, start=None, proximal=None, mask=None):
        self.calls.append((data, overrides, start, proximal, mask))
        start = np.broadcast_to(self.model if start is None else start, (len(data), len(self.model)))
        trained = [
            self._one(
                start[i].copy(),
                examples,
                overrides,
                proximal and (proximal.strength, np.broadcast_to(proximal.center, start.shape)[i]),
                None if mask is None else mask[i],
            )
            for i, examples in enumerate(data)
        ]
        return np.stack(trained) - start

    def _one(self, weights, examples, overrides, proximal, mask):
        epochs, lr = overrides.epochs or self.honest.epochs, overrides.lr or self.honest.lr
        batch = overrides.batch_size or self.honest.batch_size
        for _ in range(epochs):
            for at in range(0, len(examples.labels), batch):
                slope = self.gradient(weights, examples.images[at : at + batch], examples.labels[at : at + batch])
                if proximal:
                    slope = slope + proximal[0] * (weights - proximal[1])
                weights = weights - lr * (slope if mask is None else slope * mask)
        return weights.astype(np.float32)

    def gradient(self, weights, images, labels):
        flat = images.reshape(len(images), -1)
        return (self._errors(weights, images, labels).T @ flat / len(labels)).reshape(-1)

    def slopes(self, images, labels, *, model=None):
        weights = self.model if model is None else model
        errors = self._errors(weights, images, labels)
        return (errors @ weights.reshape(self.classes, -1)).reshape(images.shape).astype(np.float32)

    def _errors(self, weights, images, labels):
        scores = self.scores(weights, images)
        shares = np.exp(scores - scores.max(1, keepdims=True))
        shares /= shares.sum(1, keepdims=True)
        shares[np.arange(len(labels)), labels] -= 1
        return shares

    def scores(self, weights, images):
        return images.reshape(len(images), -1) @ weights.reshape(self.classes, -1).T


CLASSES, SIDE = 4, 8
PLAIN = Palette()


def pictures(count, rng):
    """Images whose class is the quadrant that is lit."""
    labels = rng.integers(0, CLASSES, count)
    images = rng.random((count, 1, SIDE, SIDE)) * 0.3
    for image, label in zip(images, labels, strict=True):
        row, column = divmod(int(label), 2)
        image[0, 4 * row + 1 : 4 * row + 4, 4 * column + 1 : 4 * column + 4] += 0.7
    return Examples(images.astype(np.float32), labels)


def evaluation(seed=5, palette=PLAIN):
    rng = np.random.default_rng(seed)
    return EvaluationData(pictures(60, rng), CLASSES, palette, rng)


def clients(attack, *, malicious=MALICIOUS, seed=0, current=3, palette=PLAIN):
    rng = np.random.default_rng(seed)
    honest = TrainingOverrides(epochs=2, lr=0.2, momentum=0.0, weight_decay=0.0, batch_size=10)
    model = rng.normal(size=CLASSES * SIDE * SIDE).astype(np.float32) * 0.01
    train = Softmax(model, CLASSES, honest, [])
    return MaliciousClients(
        data=tuple(pictures(40, rng) for _ in malicious),
        train=train,
        model=model,
        honest=honest,
        shards=SHARDS,
        malicious=malicious,
        classes=CLASSES,
        palette=palette,
        goal=attack.goal(evaluation(palette=palette)),
        round=current,
        rng=np.random.default_rng(seed + 1),
        slopes=train.slopes,
    )
