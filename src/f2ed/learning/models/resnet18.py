"""ResNet18 (He et al. 2016) for small images: a 3 x 3 stem without pooling, as is common below 64 pixels."""

from typing import Annotated, Literal

import msgspec
from torch import Tensor, nn

from f2ed.learning.datasets.base import image_shape
from f2ed.learning.models.base import Model

__all__ = ["ResNet18"]

Norm = Literal["batch", "group"]


class ResNet18(Model, frozen=True, tag="resnet18"):
    """Eight residual blocks of two convolutions.

    `norm = "group"` (at most 32 groups) has no running statistics, works with small batches, and allows clients to be
    trained together. `norm = "batch"` is the original; `buffers` says what happens to its statistics.
    """

    norm: Norm = "group"
    width: Annotated[int, msgspec.Meta(ge=1)] = 64

    def build(self, shape: tuple[int, ...], classes: int) -> nn.Module:
        """Build the module."""
        width = self.width
        blocks: list[nn.Module] = []
        inputs = width
        for stage, outputs in enumerate((width, 2 * width, 4 * width, 8 * width)):
            blocks += [
                _Block(inputs, outputs, 1 if stage == 0 else 2, self.norm),
                _Block(outputs, outputs, 1, self.norm),
            ]
            inputs = outputs
        return nn.Sequential(
            nn.Conv2d(image_shape(shape)[0], width, 3, padding=1, bias=False),
            _norm(self.norm, width),
            nn.ReLU(),
            *blocks,
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(inputs, classes),
        )


class _Block(nn.Module):
    """Two 3 x 3 convolutions with a shortcut, projected to the same size where needed."""

    def __init__(self, inputs: int, outputs: int, stride: int, norm: Norm) -> None:
        super().__init__()
        self.residual = nn.Sequential(
            nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False),
            _norm(norm, outputs),
            nn.ReLU(),
            nn.Conv2d(outputs, outputs, 3, padding=1, bias=False),
            _norm(norm, outputs),
        )
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or inputs != outputs:
            self.shortcut = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), _norm(norm, outputs))
        self.out = nn.ReLU()

    def forward(self, images: Tensor) -> Tensor:
        out: Tensor = self.out(self.residual(images) + self.shortcut(images))
        return out


def _norm(norm: Norm, channels: int) -> nn.Module:
    if norm == "batch":
        return nn.BatchNorm2d(channels)
    return nn.GroupNorm(next(groups for groups in (32, 16, 8, 4, 2, 1) if channels % groups == 0), channels)
