"""A round with helpers as each party sees it: encoded updates, the judge's Gram matrix and the server's sum.

Encoding, sketch, Gram matrix, rule and guard are the protocol's own. Only the masks are left out, since they cancel.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import msgspec
import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from f2ed.audit.server_view import ServerView, as_pixels, opened_mean, update
from f2ed.core.randomness import stream
from f2ed.estimators import Estimator, FilterL2
from f2ed.learning import Data, Samples
from f2ed.protocol.helpers import MIXER, ROLES, SERVER, HelpersProtocol, Party, Role, Terms, encoded, helper_terms
from f2ed.protocol.helpers.field import centered, elements, from_integers, subtract
from f2ed.protocol.helpers.keys import joint_seed, mask_key
from f2ed.protocol.helpers.plain import plain_gram, plain_mean
from f2ed.protocol.helpers.terms import encoding_of
from f2ed.protocol.sharding import ClientId

__all__ = ["LONGEST", "LR", "MEDIAN", "HelpedRound", "Vectors", "helped_round"]

LR = 0.1
Clip = Literal["median", "longest"]
MEDIAN: Clip = "median"
"""A clip norm of the median length of the updates, as is recommended."""
LONGEST: Clip = "longest"
"""A clip norm that no update exceeds."""

Vectors = NDArray[np.float64]
Integers = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class HelpedRound:
    """The clients of one round, their updates and the terms; clients are numbered from 0."""

    name: str
    """Of the model."""
    model: nn.Module
    data: Data
    samples: list[Samples]
    trained: list[NDArray[np.float32]]
    """The updates before the clip."""
    updates: list[NDArray[np.float32]]
    numbers: list[Integers]
    terms: Terms
    seed: int

    @property
    def clients(self) -> int:
        """How many there are."""
        return len(self.samples)

    def pixels(self, clients: Sequence[ClientId]) -> Vectors:
        """Return the true images of some clients, from 0 to 1."""
        images = torch.cat([self.samples[client].images for client in clients])
        return as_pixels(images, self.data.black, self.data.white)

    def view(self, mean: NDArray[np.floating], members: int) -> ServerView:
        """Return what a party sees that knows a mean over so many clients, and the model."""
        size = len(self.samples[0])
        seen = torch.from_numpy(np.asarray(mean, np.float32))
        return ServerView(seen, self.model, members, size, LR, 1, self.data.black, self.data.white)

    def encode(self, row: NDArray[np.floating], client: ClientId) -> Integers:
        """Return an update as the client's integers."""
        key = stream(self.seed, "audit", "rounding", client).bytes(32)
        return encoded(np.asarray(row, np.float32), key=key)(self.terms)

    def decode(self, numbers: NDArray[np.integer] | Vectors) -> Vectors:
        """Return integers as the update that they stand for."""
        return np.asarray(numbers, np.float64) * encoding_of(self.terms).unit

    def shards(self, size: int) -> list[range]:
        """Return shards of this size of the same clients, to compare with."""
        return [range(first, min(first + size, self.clients)) for first in range(0, self.clients, size)]

    def shard_mean(self, some: range, *, clipped: bool = False) -> NDArray[np.float32]:
        """Return the mean that a server with shards opens: by default without a clip norm, or with the same one."""
        rows = self.updates if clipped else self.trained
        return opened_mean([rows[one] for one in some], stream(self.seed, "audit", "shard", some.start))

    def clipped(self, clip: Clip) -> "HelpedRound":
        """Return the same clients with another clip."""
        lengths = [float(np.linalg.norm(each)) for each in self.trained]
        norm = float(np.median(lengths)) if clip == MEDIAN else max(lengths)
        factors = [np.float32(min(1.0, norm / max(length, 1e-30))) for length in lengths]
        updates = [each * factor for each, factor in zip(self.trained, factors, strict=True)]
        terms = msgspec.structs.replace(self.terms, clip_norm=norm)
        made = replace(self, terms=terms, updates=updates, numbers=[])
        made.numbers.extend(made.encode(row, client) for client, row in enumerate(updates))
        return made

    def judge_gram(self, rows: Sequence[Integers], round_: int = 0) -> Vectors:
        """Return the sketched Gram matrix of these rows, as the judge sees it in a round."""
        found = centered(plain_gram(self.terms, rows, joint_seed(*self._halves(round_))))
        unit = encoding_of(self.terms).unit
        return found.astype(np.float64) * (unit * unit / self.terms.foldings)

    def exact_gram(self, rows: Sequence[Integers]) -> Vectors:
        """Return the same without a sketch, which the protocol never shows: what the sketch blurs."""
        matrix = self.decode(np.stack(rows))
        return matrix @ matrix.T

    def opened(self) -> tuple[NDArray[np.float32], tuple[ClientId, ...]] | str:
        """Return the mean that the server gets and who is in it, or why there is none."""
        outcome = plain_mean(self.terms, dict(enumerate(self.numbers)), halves=self._halves(0))
        return outcome.aborted or "no mean" if outcome.mean is None else (outcome.mean, outcome.kept)

    def masked(self, client: ClientId, party: Role) -> Vectors:
        """Return the best that server or mixer can compute of a row alone: everything but the other's mask."""
        missing = {SERVER: MIXER, MIXER: SERVER}[party]
        seed = stream(self.seed, "audit", "mask", client, missing).bytes(32)
        mask = elements(mask_key(bytes(32), client, missing, seed), self.terms.coordinates)
        return self.decode(centered(subtract(from_integers(self.numbers[client]), mask)))

    def _halves(self, round_: int) -> tuple[bytes, bytes]:
        mixer, judge = (stream(self.seed, "audit", "half", role, round_).bytes(32) for role in ROLES[1:])
        return mixer, judge


def helped_round(
    name: str,
    model: nn.Module,
    data: Data,
    samples: list[Samples],
    settings: HelpersProtocol,
    *,
    rule: Estimator | None = None,
    seed: int = 0,
) -> HelpedRound:
    """Let the clients take one full-batch step each; the clip norm is the median length of the updates."""
    updates = [update(model, some, lr=LR) for some in samples]
    parties = {role: Party(f"operator of the {role}", bytes([place]) * 32) for place, role in enumerate(ROLES)}
    terms = helper_terms(
        settings,
        policy=bytes(32),
        job="audit",
        round_=0,
        members=range(len(samples)),
        coordinates=len(updates[0]),
        clip_norm=1.0,
        rule=FilterL2(contamination=0.1) if rule is None else rule,
        parties=parties,
    )
    return HelpedRound(name, model, data, samples, updates, [], [], terms, seed).clipped(MEDIAN)
