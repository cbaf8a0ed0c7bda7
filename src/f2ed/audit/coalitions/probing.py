"""What clients that collude with the judge read from its Gram matrix: inner products of their updates with all others.

Own updates span a few directions, and an update is estimated within that span. Probes do better: for a first layer that
is dense, an update is a sum of d (x) [image; 1] with d the gradient at the bias. A colluder that sends u (x) b, where b
is a principal component of public images, makes the matrix hold <u, d> <b, [image; 1]> for every client.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from f2ed.audit.coalitions.cohort import LR, HelpedRound, Vectors
from f2ed.audit.inversion import first_dense
from f2ed.audit.server_view import as_pixels, update
from f2ed.core.randomness import stream
from f2ed.learning import layout

__all__ = ["Prober", "image_of", "prober", "shown", "within_span"]

_PUBLIC = 2000
"""Public images from which the principal components come."""
_STEPS = 200
"""Public images from which the direction of the probes comes, and sizes of the unknown factor that are tried."""
_EXACT = 1e-10
"""Relative variance of rounding in a matrix without a sketch."""


@dataclass(frozen=True, eq=False)
class Prober:
    """How colluders probe, and what they know from public data."""

    direction: Vectors
    """u, of length one."""
    basis: Vectors
    """[k, inputs + 1], orthonormal: the bias, the mean image, then principal components."""
    images: Vectors
    """Public images [m, inputs] as the model sees them."""
    factors: Vectors
    """Values of <u, d> for public images, as in an update."""

    def rows(self, it: HelpedRound, which: slice) -> list[NDArray[np.int64]]:
        """Return the encoded updates that the colluders send, as long as the clip."""
        layer, out = first_dense(it.model), []
        for number, one in enumerate(self.basis[which]):
            row = torch.zeros(len(it.updates[0]))
            parts = layout(it.model).views(row)
            parts[f"{layer}.weight"].copy_(torch.from_numpy(np.outer(self.direction, one[:-1])))
            parts[f"{layer}.bias"].copy_(torch.from_numpy(self.direction * one[-1]))
            out.append(it.encode(row.numpy() * it.terms.clip_norm, it.clients + number))
        return out

    def images_from(self, seen: Vectors, lengths: Vectors, noise: float) -> Vectors:
        """Return an image for each client from its inner products [n, k] with the probes, of length one.

        Images are modeled as Gaussian, with the mean and covariance of public ones. The factor <u, d> of each client is
        the likeliest of many. `noise` is the variance of an entry relative to the squared lengths of both rows.
        """
        known = np.concatenate([self.images, np.ones((len(self.images), 1))], axis=1) @ self.basis[: seen.shape[1]].T
        center, average = known.mean(axis=0), self.images.mean(axis=0)
        spread, turn = np.linalg.eigh(np.cov(known.T))
        across = (self.images - average).T @ (known - center) / (len(known) - 1) @ turn
        spread, turned = spread.clip(0), center @ turn
        sizes = np.quantile(np.abs(self.factors), np.linspace(0.002, 1, _STEPS))
        out = []
        for row, length in zip(seen, lengths, strict=True):
            blur = max(noise, _EXACT) * length**2
            tried = np.concatenate([sizes, -sizes, row[:1] / known[0, 0]])[:, None]
            variance, left = tried**2 * spread + blur, row @ turn - tried * turned
            best = np.argmax(-(left**2 / variance + np.log(variance)).sum(axis=1))
            out.append(average + across @ (tried[best] * left[best] / variance[best]))
        return np.stack(out)


def prober(it: HelpedRound, probes: int) -> Prober:
    """Prepare so many probes from public images: those of the test set."""
    public = it.data.test
    images = public.images[:_PUBLIC].reshape(min(_PUBLIC, len(public.images)), -1).double().numpy()
    layer, slopes = first_dense(it.model), []
    for place in range(min(_STEPS, len(public))):
        moved = torch.from_numpy(update(it.model, public.take(torch.tensor([place])), lr=LR))
        size = float(moved.norm())
        slopes.append(layout(it.model).views(moved)[f"{layer}.bias"].double().numpy() / size)
    known = np.stack(slopes)
    # The direction that all updates have a part along: of many mixtures of what public images cause, the best.
    rng = stream(it.seed, "audit", "probes", it.name)
    mixed = rng.standard_normal((_STEPS, len(known))) @ known
    mixed /= np.linalg.norm(mixed, axis=1, keepdims=True)
    along = np.abs(known @ mixed.T)
    direction = mixed[np.argmax(np.quantile(along, 0.1, axis=0))]
    average = images.mean(axis=0)
    components = np.linalg.svd(images - average, full_matrices=False)[2][:probes]
    wanted = np.concatenate([np.zeros((1, images.shape[1])), average[None], components])
    axes = np.concatenate([wanted, np.eye(1, len(wanted)).T], axis=1)
    basis = np.linalg.qr(axes.T)[0].T[:probes]
    sizes = np.median(np.linalg.norm(np.stack(it.updates), axis=1))
    return Prober(direction, basis * np.sign(basis[0, -1]), images, known @ direction * sizes)


def within_span(gram: Vectors, victims: int, known: Sequence[NDArray[np.floating]], noise: float) -> Vectors:
    """Return each victim's update as the colluders estimate it: the best combination of their own updates.

    The matrix has the victims first, then the colluders.
    """
    own = gram[victims:, victims:]
    ridge = max(noise, _EXACT) * float(own.diagonal().mean())
    weights = np.linalg.solve(own + ridge * np.eye(len(own)), gram[victims:, :victims])
    return np.asarray(weights.T @ np.stack(known).astype(np.float64))


def image_of(it: HelpedRound, rows: Vectors) -> Vectors:
    """Return the image, from 0 to 1, that best explains the first layer of each update as one sample's."""
    layer, found = first_dense(it.model), []
    for row in rows:
        parts = layout(it.model).views(torch.from_numpy(row))
        weight, bias = parts[f"{layer}.weight"], parts[f"{layer}.bias"]
        found.append(bias @ weight / (bias @ bias).clamp(min=1e-30))
    return shown(it, torch.stack(found))


def shown(it: HelpedRound, images: Tensor) -> Vectors:
    """Return images as the model sees them, [n, inputs], as pixels from 0 to 1."""
    shape = it.samples[0].images.shape[1:]
    pixels = as_pixels(images.reshape(len(images), *shape), it.data.black, it.data.white)
    return np.asarray(pixels.clip(0, 1))
