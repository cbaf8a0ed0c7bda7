"""Label counts of a shard from the bias of the last layer (Zhao et al. 2020; Wainakh et al. 2022).

The gradient of the bias of class c is the mean over the samples of (predicted probability of c) - (1 if c is the
label). The average prediction can be estimated well from any images; the rest are the counts.
"""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from f2ed.audit.server_view import ServerView
from f2ed.core.errors import ConfigError

__all__ = ["infer_labels", "overlap"]

_DUMMIES = 256


def infer_labels(
    view: ServerView, shape: tuple[int, int, int], rng: np.random.Generator, images: NDArray[np.float64] | None = None
) -> NDArray[np.int64]:
    """Return how many samples of each label went into the mean.

    `images`, with pixels from 0 to 1, are those recovered from the same mean, if any: a trained model's predictions
    depend on the images. Those of an untrained model are much the same for dark noise.
    """
    gradient = -view.part(_last_bias(view.model)).double().numpy() / (view.lr * view.steps)
    if images is None or not len(images):
        images = 0.3 * rng.random((_DUMMIES, *shape))
    with torch.no_grad():
        scores = view.model(torch.from_numpy(view.black + (view.white - view.black) * images).float())
    expected = scores.softmax(dim=1).mean(dim=0).double().numpy()
    return _whole(view.samples * (expected - gradient), view.samples)


def overlap(true: NDArray[np.int64], found: NDArray[np.int64]) -> float:
    """Return the share of the samples whose label was found, comparing multisets."""
    return float(np.minimum(true, found).sum() / true.sum())


def _whole(counts: NDArray[np.float64], total: int) -> NDArray[np.int64]:
    """Round to counts that sum to `total`, by largest remainders."""
    counts = counts.clip(0)
    counts *= total / max(counts.sum(), 1e-12)
    down = np.floor(counts).astype(np.int64)
    missing = total - int(down.sum())
    down[np.argsort(down - counts)[:missing]] += 1
    return down


def _last_bias(model: nn.Module) -> str:
    names = [name for name, module in model.named_modules() if isinstance(module, nn.Linear)]
    if not names or dict(model.named_modules())[names[-1]].bias is None:
        raise ConfigError("the model does not end in a dense layer with a bias, so labels cannot be read from it")
    return f"{names[-1]}.bias"
