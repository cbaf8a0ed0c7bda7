"""The audit: every attack on what a run would show the server, for several shard sizes."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Annotated, final

import msgspec
import numpy as np
import torch
from msgspec import Meta
from numpy.typing import NDArray
from torch import nn

from f2ed.audit.findings import Finding, RankHistory, interval_of, interval_of_mean
from f2ed.audit.gradient_matching import GradientMatching
from f2ed.audit.images import match, psnr, side_by_side
from f2ed.audit.inconsistency import send_different_models
from f2ed.audit.inversion import invert
from f2ed.audit.label_inference import infer_labels, overlap
from f2ed.audit.membership import auc, loss_scores, span_scores, true_positive_rate
from f2ed.audit.over_rounds import follow_rounds, schedules
from f2ed.audit.server_view import as_pixels, draw_shard, view_of
from f2ed.audit.tally import ImageScores, Tally
from f2ed.core.randomness import stream
from f2ed.guarantees.leakage.forecast import ScheduleLeak, forecast_leak
from f2ed.learning import ClientData, Data, LocalTrainer, Samples, Training, TrainingJob, TrainingKey, load
from f2ed.learning.datasets.base import image_shape
from f2ed.learning.models import Cnn, Mlp
from f2ed.protocol.sharding import EveryRound, Schedule

__all__ = ["AuditSettings", "Picture", "audit", "trained_on"]

Count = Annotated[int, Meta(ge=1)]

_LR = 0.1
_OTHERS = 1000
"""Images that no member has, as non-members for membership inference."""


@final
class AuditSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is audited. The defaults are the worst case for clients: one image each, and an untrained model."""

    sizes: tuple[Count, ...] = (1, 2, 4, 8, 16)
    """Shard sizes; 1 is a server that sees each update."""
    batch_size: Count = 1
    """Images per client."""
    hidden: Count = 256
    """Width of the dense model's first layer."""
    trials: Count = 5
    """Shards per size."""
    iterations: Annotated[int, Meta(ge=0)] = 500
    """Iterations of the gradient-matching attack; 0 skips it."""
    clients: Annotated[int, Meta(ge=4)] = 100
    shard: Annotated[int, Meta(ge=2)] = 4
    """Shard size of the attack over many rounds."""
    rounds: Count = 100
    schedule: Schedule = EveryRound()
    """The schedule of the run, audited in addition to the usual ones."""
    client_dropout: Annotated[float, Meta(ge=0, lt=1)] = 0.05
    seed: int = 0


@dataclass(frozen=True, eq=False)
class Picture:
    """True images above their reconstructions."""

    name: str
    caption: str
    pixels: NDArray[np.uint8]


def audit(data: Data, settings: AuditSettings) -> Iterator[Finding | RankHistory | Picture | ScheduleLeak | str]:
    """Yield findings, pictures and leak forecasts as they are computed, and text about the next step.

    A shard of one is always included: it is the server without shards, the baseline for the others.
    """
    settings = msgspec.structs.replace(settings, sizes=tuple(sorted({1, *settings.sizes})))
    fresh = Mlp((settings.hidden,))(data.shape, data.classes, settings.seed)
    trained = trained_on(fresh, data, settings.seed)
    plain: dict[str, float] = {}
    for name, model in (("untrained", fresh), ("trained", trained)):
        yield f"images, labels and membership from shard means, dense model, {name}"
        for found in _from_means(model, name, data, settings):
            if isinstance(found, Finding) and found.shard == 1:
                plain.setdefault(found.metric, found.found.value)
            yield found
    yield "membership from the model alone"
    yield from _from_model(fresh, data, settings, plain)
    if settings.iterations:
        yield from _by_optimization(data, settings)
    yield f"single clients over {settings.rounds} rounds"
    yield from follow_rounds(
        data,
        clients=settings.clients,
        shard=settings.shard,
        rounds=settings.rounds,
        schedule=settings.schedule,
        client_dropout=settings.client_dropout,
        seed=settings.seed,
    )
    yield "the leak meter"
    yield from _meter(settings)
    yield "a server that sends different models"
    yield from _inconsistency(fresh, data, settings, plain)


def _from_means(model: nn.Module, name: str, data: Data, settings: AuditSettings) -> Iterator[Finding | Picture]:
    images, labels, members = (
        Tally(attack, f"{name} dense model", {}) for attack in ("inversion", "labels", "membership")
    )
    others = data.test.images[:_OTHERS]
    for size in sorted(settings.sizes):
        seen: dict[str, list[float]] = {"labels": [], "by chance": []}
        scores = ImageScores()
        inside: list[NDArray[np.float64]] = []
        outside: list[NDArray[np.float64]] = []
        for trial in range(settings.trials):
            rng = stream(settings.seed, "audit", name, size, trial)
            shard = draw_shard(data, size, settings.batch_size, rng)
            view = view_of(model, shard, data, rng, lr=_LR)
            together = _together(shard)
            true = as_pixels(together.images, data.black, data.white)
            recovered = invert(view, image_shape(data.shape))
            found = match(true, recovered)
            scores.add(true, found, _average(data))
            counts = np.bincount(together.labels, minlength=data.classes)
            seen["labels"].append(overlap(counts, infer_labels(view, image_shape(data.shape), rng, recovered)))
            lots = np.bincount(rng.integers(data.classes, size=len(together)), minlength=data.classes)
            seen["by chance"].append(overlap(counts, lots))
            inside.append(span_scores(view, together.images))
            outside.append(span_scores(view, others))
            if trial == 0:
                caption = f"shard of {size}, {name} dense model"
                yield Picture(f"inversion_{name}_{size}", caption, side_by_side(true, found))
        draws = stream(settings.seed, "intervals", name, size)
        yield from scores.findings(images, size, draws)
        yield labels.finding(
            "share of labels found", size, interval_of_mean(seen["labels"], draws), float(np.mean(seen["by chance"]))
        )
        yield from _membership(members, size, np.concatenate(inside), np.concatenate(outside), draws)


def _membership(
    tally: Tally, size: int, inside: NDArray[np.float64], outside: NDArray[np.float64], rng: np.random.Generator
) -> Iterator[Finding]:
    yield tally.finding("AUC", size, interval_of((inside, outside), auc, rng), 0.5)
    yield tally.finding("TPR at 1 % FPR", size, interval_of((inside, outside), true_positive_rate, rng), 0.01)


def _from_model(fresh: nn.Module, data: Data, settings: AuditSettings, plain: dict[str, float]) -> Iterator[Finding]:
    """Attack the model alone, trained for many epochs on few images: its leakage does not depend on shards."""
    rng = stream(settings.seed, "audit", "overfit")
    mine = data.train.take(torch.from_numpy(rng.choice(len(data.train), size=min(500, len(data.train)), replace=False)))
    model = _fit(fresh, mine, data, epochs=30, seed=settings.seed)
    tally = Tally("membership", "the model alone, after 30 epochs on 500 images", plain)
    inside, outside = loss_scores(model, mine), loss_scores(model, data.test)
    yield from _membership(tally, settings.shard, inside, outside[:_OTHERS], rng)


def _by_optimization(data: Data, settings: AuditSettings) -> Iterator[Finding | Picture | str]:
    model = Cnn()(data.shape, data.classes, settings.seed)
    attack = GradientMatching(iterations=settings.iterations)
    tally = Tally("optimization", "untrained convolutional model", {})
    for size in sorted(settings.sizes):
        yield f"optimization on the convolutional model, shard of {size}"
        scores = ImageScores()
        # Only as many images as an interval needs: this is the slow part.
        for trial in range(max(1, min(settings.trials, 8 // size))):
            rng = stream(settings.seed, "audit", "optimisation", size, trial)
            shard = draw_shard(data, size, 1, rng)
            view = view_of(model, shard, data, rng, lr=_LR)
            true = as_pixels(_together(shard).images, data.black, data.white)
            counts = infer_labels(view, image_shape(data.shape), rng)
            labels = np.repeat(np.arange(data.classes), counts).tolist()
            found = match(true, attack(view, labels, image_shape(data.shape), rng))
            scores.add(true, found, _average(data))
            if trial == 0:
                caption = f"shard of {size}, untrained convolutional model"
                yield Picture(f"optimization_{size}", caption, side_by_side(true, found))
        yield from scores.findings(tally, size, stream(settings.seed, "intervals", "optimisation", size))


def _meter(settings: AuditSettings) -> Iterator[ScheduleLeak]:
    shards, rounds = settings.clients // settings.shard, settings.rounds
    compared = schedules(settings.clients, shards, rounds, settings.schedule, settings.client_dropout)
    for schedule, dropout, mode in compared.values():
        yield forecast_leak(
            clients=settings.clients,
            shards=shards,
            rounds=rounds,
            schedule=schedule,
            client_dropout=dropout,
            mode=mode,
            seed=settings.seed,
        )


def _inconsistency(model: nn.Module, data: Data, settings: AuditSettings, plain: dict[str, float]) -> Iterator[Finding]:
    for size in sorted(size for size in settings.sizes if size >= 3):
        for bound in (False, True):
            play = partial(_one_inconsistent_round, model, data, bound=bound, size=size)
            seen, guesses = zip(
                *(play(stream(settings.seed, "lie", size, trial)) for trial in range(settings.trials)), strict=True
            )
            yield Finding(
                attack="inconsistency",
                metric="PSNR of the victim, dB",
                shard=size,
                setting="masks bound to the model" if bound else "masks not bound to the model",
                found=interval_of_mean(seen, stream(settings.seed, "intervals", "lie", size)),
                guess=float(np.mean(guesses)),
                plain=plain.get("PSNR, dB"),
            )


def _one_inconsistent_round(
    model: nn.Module, data: Data, rng: np.random.Generator, *, bound: bool, size: int
) -> tuple[float, float]:
    """Return the PSNR of the victim's image, and that of the average image as a guess."""
    shard = draw_shard(data, size, 1, rng)
    attack = send_different_models(model, shard, data, rng, bound=bound, lr=_LR)
    true = as_pixels(shard[0].images, data.black, data.white)
    seen = psnr(true, match(true, invert(attack.view, image_shape(data.shape))))[0]
    return float(seen), float(psnr(true, _average(data))[0])


def trained_on(fresh: nn.Module, data: Data, seed: int) -> nn.Module:
    """Return the model after two epochs on a part of the training set."""
    rng = stream(seed, "audit", "training")
    rows = rng.choice(len(data.train), size=min(6000, len(data.train)), replace=False)
    return _fit(fresh, data.train.take(torch.from_numpy(rows)), data, epochs=2, seed=seed)


def _fit(fresh: nn.Module, samples: Samples, data: Data, *, epochs: int, seed: int) -> nn.Module:
    local = LocalTrainer(fresh)
    start = torch.cat([value.detach().reshape(-1) for value in fresh.parameters()])
    # The learning rate is scaled to the pixel range, which depends on the data set's normalization.
    training = Training(lr=0.1 / max(1.0, data.white - data.black), batch_size=16, local_epochs=epochs)
    moved = local.train(start, TrainingJob(0, ClientData.of(samples), training), TrainingKey(seed, 0, 0))
    load(local.model, start + moved)
    return local.model


def _together(shard: list[Samples]) -> Samples:
    return Samples(torch.cat([samples.images for samples in shard]), torch.cat([samples.labels for samples in shard]))


def _average(data: Data) -> NDArray[np.float64]:
    """Return the mean image: the best guess of someone who knows the kind of data but has not seen the shard."""
    return as_pixels(data.test.images.mean(dim=0, keepdim=True), data.black, data.white)
