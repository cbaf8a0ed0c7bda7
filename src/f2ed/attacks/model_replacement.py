"""MRA, a backdoor by model replacement (Bagdasaryan et al., AISTATS 2020)."""

from collections.abc import Sequence
from typing import Annotated

import msgspec

from f2ed.attacks._common.backdoor import Backdoor
from f2ed.attacks._common.boost import Boost
from f2ed.attacks._common.goal import Palette
from f2ed.attacks._common.training import MaliciousClients, ProximalTerm
from f2ed.attacks._common.triggers import Box, Square
from f2ed.attacks.base import Variant
from f2ed.core.arrays import Array

__all__ = ["ModelReplacement"]


class ModelReplacement(Backdoor, frozen=True, kw_only=True, tag="model-replacement"):
    """Train a model with a backdoor and scale its update so that the mean of all updates becomes that model.

    `alpha` below 1 weighs the loss by alpha and adds 1 - alpha times half the squared distance from the global model,
    to look less anomalous. The released variant replaces no model: nothing is scaled, all images of a malicious client
    are poisoned, the target is 0, and the 5 x 5 square has the value 0 *after* normalization, hardly visible on MNIST
    and mostly black on black on Fashion-MNIST.
    """

    title = "Model replacement"
    family = "backdoor"
    paper = "Bagdasaryan et al., AISTATS 2020"
    aliases = ("mra",)

    trigger: Square = Square()
    boost: Boost = "replacement"
    alpha: Annotated[float, msgspec.Meta(gt=0.0, le=1.0)] = 1.0
    variant: Variant = "original"

    def as_run(self) -> "ModelReplacement":
        """Apply the settings that the released code fixes."""
        if self.variant == "original":
            return self
        return msgspec.structs.replace(self, trigger=Square(size=5), boost=1.0, share=1.0, target=0, alpha=1.0)

    def marks(self, images: Array, rank: int | None) -> Sequence[Box]:  # noqa: ARG002  the same for all clients
        """Return the square."""
        return self.as_run().trigger.boxes(images)

    def shade(self, palette: Palette) -> float:
        """Paint before normalization, or after it like the released code."""
        return 0.0 if self.variant == "released" else palette.shade(self.trigger.value)

    def train(self, clients: MaliciousClients) -> Array:
        """Train on the poisoned data, near the global model if alpha is below 1."""
        alpha = self.as_run().alpha
        # The optimizer sees the loss divided by alpha, so that its first term keeps its weight.
        proximal = None if alpha == 1 else ProximalTerm((1 - alpha) / alpha, clients.model)
        return clients.train(self.poison(clients), overrides=self.overrides, proximal=proximal)
