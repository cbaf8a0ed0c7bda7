"""The audit of a round with helpers: each party, and each coalition with clients, beside shards of the same clients."""

from collections.abc import Iterator, Sequence
from typing import Annotated, final

import msgspec
import numpy as np
import torch
from msgspec import Meta
from torch import nn

from f2ed.audit.audit import trained_on
from f2ed.audit.coalitions.cohort import LONGEST, HelpedRound, Vectors, helped_round
from f2ed.audit.coalitions.findings import CoalitionFinding
from f2ed.audit.coalitions.imprint import imprint, read_bins
from f2ed.audit.coalitions.kept_sums import cosines_from_sums, with_guard
from f2ed.audit.coalitions.members import label_findings, membership_findings
from f2ed.audit.coalitions.probing import Prober, image_of, prober, shown, within_span
from f2ed.audit.coalitions.scoring import SHOWN, Row, by_chance, picture, scored
from f2ed.audit.findings import interval_of_mean
from f2ed.audit.images import match
from f2ed.audit.inversion import invert
from f2ed.audit.server_view import draw_shard
from f2ed.core.errors import ConfigError
from f2ed.core.randomness import stream
from f2ed.estimators import Estimator
from f2ed.guarantees.kept_sets import survivors
from f2ed.learning import Data
from f2ed.learning.datasets.base import image_shape
from f2ed.learning.models import Mlp
from f2ed.protocol.helpers import MIXER, SERVER, HelpersProtocol

__all__ = ["CoalitionSettings", "audit_coalitions"]

Count = Annotated[int, Meta(ge=1)]

_OWN = 10
"""Colluders that send their own updates."""
_SKETCHED = 200
"""Directions along which mixer and judge together, who hold all sketches, look at every update."""


@final
class CoalitionSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is audited. The defaults are the worst case for clients: one image each, full batches."""

    clients: Annotated[int, Meta(ge=20)] = 100
    colluders: tuple[Count, ...] = (10, 50)
    """How many clients collude with a party, in turn."""
    batch_size: Count = 1
    """Images per client."""
    hidden: Count = 256
    shard: Annotated[int, Meta(ge=2)] = 4
    """Shard size to compare with."""
    rounds: tuple[Count, ...] = (1, 10, 100)
    client_dropout: Annotated[float, Meta(ge=0, lt=1)] = 0.05
    helpers: HelpersProtocol = HelpersProtocol()
    seed: int = 0

    def __post_init__(self) -> None:
        """Refuse coalitions that leave nobody to attack."""
        if max(self.colluders) > self.clients - 2:
            raise ConfigError(f"{max(self.colluders)} of {self.clients} clients collude; leave at least two others")


def audit_coalitions(
    data: Data, settings: CoalitionSettings, rule: Estimator | None = None
) -> Iterator[CoalitionFinding | Row | str]:
    """Yield findings, rows of pictures, and text about the next step."""
    fresh = Mlp((settings.hidden,))(data.shape, data.classes, settings.seed)
    rng = stream(settings.seed, "audit", "coalitions")
    samples = draw_shard(data, settings.clients, settings.batch_size, rng)
    for name, model in (("untrained", fresh), ("trained", trained_on(fresh, data, settings.seed))):
        it = helped_round(name, model, data, samples, settings.helpers, rule=rule, seed=settings.seed)
        sketch = f"K = {it.terms.columns}"
        yield f"images, {name} model"
        yield from _images(it, settings, sketch)
        yield f"labels and membership, {name} model"
        yield from label_findings(it, settings.shard, sketch)
        yield from membership_findings(it, settings.shard, sketch)
    yield "a malicious model"
    yield from _malicious(fresh, data, it, settings, rule)
    yield "many rounds"
    it = helped_round("untrained", fresh, data, samples, settings.helpers, rule=rule, seed=settings.seed)
    yield from _probing_rounds(it, settings)
    yield from _server_rounds(it, settings)


def _images(it: HelpedRound, settings: CoalitionSettings, sketch: str) -> Iterator[CoalitionFinding | Row]:
    everyone, shape = range(it.clients), image_shape(it.data.shape)
    yield picture(it, "true", "true images", everyone, it.pixels(everyone))
    found = _from_shards(it, settings.shard)
    yield from scored(it, "images", f"S, shards of {settings.shard}", everyone, found, "shards")
    found = _from_shards(it, settings.shard, clipped=True)
    yield from scored(it, "images", f"S, clipped shards of {settings.shard}", everyone, found)
    opened = it.opened()
    if isinstance(opened, str):
        raise ConfigError(f"the rule opens no sum of these clients, so there is nothing to audit: {opened}")
    mean, kept = opened
    candidates = invert(it.view(mean, len(kept)), shape)
    found, name = match(it.pixels(kept), candidates), f"S, mean of {len(kept)}"
    yield from scored(it, "images", name, kept, found, "server")
    yield by_chance(it, name, kept, candidates)
    yield from _longest_clip(it)
    for count in settings.colluders:
        helping = [client for client in kept if client >= it.clients - count]
        others = [client for client in kept if client < it.clients - count]
        if len(others) < 2:
            continue
        own = np.sum([it.decode(it.numbers[client]) for client in helping], axis=0) if helping else 0
        left = (mean.astype(np.float64) * len(kept) - own) / len(others)
        images = match(it.pixels(others), invert(it.view(left, len(others)), shape))
        yield from scored(it, "images", f"S + {count} clients, mean of {len(others)} others", others, images)
    some = range(min(it.clients, 2 * SHOWN))
    for party, role in ((SERVER, "S"), (MIXER, "M")):
        masked = [match(it.pixels([one]), invert(it.view(it.masked(one, party), 1), shape)) for one in some]
        yield from scored(it, "images", f"{role}, masked rows", some, np.concatenate(masked))
    single = [match(it.pixels([one]), invert(it.view(it.decode(it.numbers[one]), 1), shape)) for one in some]
    yield from scored(it, "images", "S + M or S + J: single updates", some, np.concatenate(single))
    yield from _judged(it, settings, sketch)


def _longest_clip(it: HelpedRound) -> Iterator[CoalitionFinding | Row]:
    """Let the server look at a sum with a clip that no update exceeds: a much longer one stands out."""
    it = it.clipped(LONGEST)
    opened = it.opened()
    if isinstance(opened, str):
        return
    mean, kept = opened
    candidates = invert(it.view(mean, len(kept)), image_shape(it.data.shape))
    name = f"S, clip at the longest update, mean of {len(kept)}"
    yield from scored(it, "images", name, kept, match(it.pixels(kept), candidates), "server_longest")
    yield by_chance(it, name, kept, candidates)


def _judged(it: HelpedRound, settings: CoalitionSettings, sketch: str) -> Iterator[CoalitionFinding | Row]:
    """Let colluders of the judge send their own updates, then probes; with the sketch and without it."""
    blurs = ((sketch, it.judge_gram, 1 / it.terms.columns), ("exact G", it.exact_gram, 0.0))
    victims = it.clients - min(_OWN, max(settings.colluders))
    for blur, gram, noise in blurs:
        rows = within_span(gram(it.numbers), victims, it.updates[victims:], noise)
        name = f"J + {it.clients - victims} clients, own updates, {blur}"
        file = "own" if noise else "own_exact"
        yield from scored(it, "images", name, range(victims), _each(it, range(victims), image_of(it, rows)), file)
    inputs = it.samples[0].images[0].numel()
    probes = prober(it, min(_SKETCHED, inputs - 1))
    everyone, sent = range(it.clients), probes.rows(it, slice(None))
    found = _probed(it, probes, it.judge_gram([*it.numbers, *sent]), 1 / it.terms.columns, everyone)
    yield from scored(it, "images", f"M + J, sketches of all updates, {sketch}", everyone, found)
    for count in settings.colluders:
        others = range(it.clients - count)
        rows_sent = [*it.numbers[: len(others)], *sent[:count]]
        for blur, gram, noise in blurs:
            found = _probed(it, probes, gram(rows_sent), noise, others)
            file = f"probing_{count}" if noise else f"probing_{count}_exact"
            yield from scored(it, "images", f"J + {count} clients, probing, {blur}", others, found, file)


def _probed(it: HelpedRound, probes: Prober, gram: Vectors, noise: float, victims: range) -> Vectors:
    """Return the victims' images from a matrix with the victims first, then the probes."""
    lengths = np.sqrt(gram.diagonal()[: len(victims)].clip(0))
    images = probes.images_from(gram[: len(victims), len(victims) :] / it.terms.clip_norm, lengths, noise)
    return _each(it, victims, shown(it, torch.from_numpy(images)))


def _malicious(
    fresh: nn.Module, data: Data, it: HelpedRound, settings: CoalitionSettings, rule: Estimator | None
) -> Iterator[CoalitionFinding | Row]:
    made = imprint(fresh, data)
    it = helped_round("malicious", made, data, it.samples, settings.helpers, rule=rule, seed=settings.seed)
    shape, everyone = image_shape(data.shape), range(it.clients)
    found = [
        match(it.pixels(some), read_bins(it.view(it.shard_mean(some), len(some)), shape))
        for some in it.shards(settings.shard)
    ]
    yield from scored(it, "malicious model", f"S, shards of {settings.shard}", everyone, np.concatenate(found))
    opened = it.opened()
    if isinstance(opened, str):
        return
    mean, kept = opened
    images = match(it.pixels(kept), read_bins(it.view(mean, len(kept)), shape))
    yield from scored(it, "malicious model", f"S, mean of {len(kept)}", kept, images, "imprint")


def _probing_rounds(it: HelpedRound, settings: CoalitionSettings) -> Iterator[CoalitionFinding | Row]:
    """Let few colluders send other probes in every round, until they have sent as many as the largest coalition."""
    few, many = min(settings.colluders), max(settings.colluders)
    probes, others = prober(it, many), range(it.clients - few)
    seen: list[Vectors] = []
    for round_ in range(-(-many // few)):
        sent = probes.rows(it, slice(round_ * few, min(many, (round_ + 1) * few)))
        gram = it.judge_gram([*it.numbers[: len(others)], *sent], round_)
        lengths = np.sqrt(gram.diagonal()[: len(others)].clip(0))
        seen.append(gram[: len(others), len(others) :] / it.terms.clip_norm)
    images = probes.images_from(np.concatenate(seen, axis=1), lengths, 1 / it.terms.columns)
    found = _each(it, others, shown(it, torch.from_numpy(images)))
    name = f"J + {few} clients, other probes in every round, K = {it.terms.columns}"
    yield from scored(it, "rounds", name, others, found, rounds=len(seen))


def _server_rounds(it: HelpedRound, settings: CoalitionSettings) -> Iterator[CoalitionFinding]:
    updates = np.stack(it.updates).astype(np.float64)
    last, draws = max(settings.rounds), stream(settings.seed, "intervals", "kept sums")
    chosen = {
        "fixed groups": msgspec.structs.replace(settings.helpers, guard="groups"),
        "nested sets": msgspec.structs.replace(settings.helpers, guard="nested"),
    }
    for name, guard in chosen.items():
        sums = list(survivors(with_guard(it.terms, guard), last, settings.client_dropout, settings.seed))
        for rounds in settings.rounds:
            yield CoalitionFinding(
                target="rounds",
                coalition=f"S, {name} of {guard.size}, {100 * settings.client_dropout:g} % drop out",
                model=it.name,
                metric="cosine",
                rounds=rounds,
                found=interval_of_mean(cosines_from_sums(sums[:rounds], updates), draws),
                guess=0.0,
            )


def _from_shards(it: HelpedRound, size: int, *, clipped: bool = False) -> Vectors:
    """Return what the server recovers from the means of shards of the same clients."""
    shape = image_shape(it.data.shape)
    views = [(some, it.view(it.shard_mean(some, clipped=clipped), len(some))) for some in it.shards(size)]
    return np.concatenate([match(it.pixels(some), invert(view, shape)) for some, view in views])


def _each(it: HelpedRound, clients: Sequence[int], found: Vectors) -> Vectors:
    """Return the found image of each client, and black for its other images."""
    size = len(it.samples[0])
    out = np.zeros((len(clients), size, *found.shape[1:]))
    for place, client in enumerate(clients):
        out[place] = match(it.pixels([client]), found[place : place + 1])
    return out.reshape(-1, *found.shape[1:])
