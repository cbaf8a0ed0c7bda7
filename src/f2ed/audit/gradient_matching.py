"""Image reconstruction by gradient matching (Geiping et al., NeurIPS 2020), for models that cannot be inverted."""

from typing import Annotated

import msgspec
import numpy as np
import torch
from msgspec import Meta
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import cross_entropy

from f2ed.audit.server_view import ServerView, as_pixels

__all__ = ["GradientMatching"]


class GradientMatching(msgspec.Struct, frozen=True, kw_only=True):
    """Search for images whose gradient points in the direction of the shard mean.

    The loss is 1 - cosine + `smooth` · total variation; Adam uses the sign of the gradient, and pixels are clipped to
    the valid range. Few iterations already show whether an image is recognizable; the published attack uses 4,800.
    """

    iterations: Annotated[int, Meta(ge=1)] = 300
    smooth: float = 0.02
    rate: float = 0.03
    """The learning rate, relative to the pixel range."""

    def __call__(
        self, view: ServerView, labels: list[int], shape: tuple[int, int, int], rng: np.random.Generator
    ) -> NDArray[np.float64]:
        """Return one image per label; the model must not depend on batch statistics."""
        wanted = [-part for part in view.layout.views(view.mean).values()]
        length = torch.sqrt(sum((part.square().sum() for part in wanted), torch.zeros(())))
        start = torch.from_numpy(rng.standard_normal((len(labels), *shape), dtype=np.float32))
        images = (view.black + (view.white - view.black) * (0.5 + 0.2 * start)).clamp(view.black, view.white)
        images.requires_grad_()
        targets = torch.tensor(labels)
        adam = torch.optim.Adam([images], lr=self.rate * (view.white - view.black))
        thirds = [self.iterations * part // 8 for part in (3, 5, 7)]
        decay = torch.optim.lr_scheduler.MultiStepLR(adam, thirds, gamma=0.1)
        for _ in range(self.iterations):
            loss = self._loss(view, images, targets, wanted, length)
            (slope,) = torch.autograd.grad(loss, images)
            images.grad = slope.sign()
            adam.step()
            decay.step()
            with torch.no_grad():
                images.clamp_(view.black, view.white)
        return as_pixels(images.detach(), view.black, view.white)

    def _loss(self, view: ServerView, images: Tensor, labels: Tensor, wanted: list[Tensor], length: Tensor) -> Tensor:
        slopes = torch.autograd.grad(
            cross_entropy(view.model(images), labels), list(view.model.parameters()), create_graph=True
        )
        pairs = list(zip(slopes, wanted, strict=True))
        along = sum(((slope * part).sum() for slope, part in pairs), torch.zeros(()))
        size = torch.sqrt(sum((slope.square().sum() for slope in slopes), torch.zeros(())))
        # Total variation, relative to the pixel range.
        across = (images[..., 1:] - images[..., :-1]).abs().mean()
        down = (images[..., 1:, :] - images[..., :-1, :]).abs().mean()
        return 1 - along / (size * length) + self.smooth * (across + down) / (view.white - view.black)
