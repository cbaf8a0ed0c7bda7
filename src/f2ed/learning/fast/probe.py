"""Find out which training paths a model supports by trying it on a few samples."""

import re
import warnings

import torch
from torch import Tensor, nn

from f2ed.learning.client import ClientData, LocalTrainer
from f2ed.learning.fast.gradients import Gradients
from f2ed.learning.vector import Layout

__all__ = ["disagreement", "has_convolutions", "is_stochastic"]

_RELATIVE, _ABSOLUTE = 1e-3, 2e-5
# A unit of ReLU close to zero may be on either side of it, so single coordinates of a deep model may differ more. Then
# each tensor must agree to this share of its norm, or of a hundredth of the norm of all.
_OF_THE_NORM, _SMALLEST = 5e-3, 1e-2
_NO_BATCHING_RULE = re.compile(r"batching rule for (?:\w+::)?(\w+)")


def has_convolutions(model: nn.Module) -> bool:
    """Return whether the model has a convolution."""
    kinds = (nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)
    return any(isinstance(module, kinds) for module in model.modules())


def is_stochastic(local: LocalTrainer, start: Tensor, data: ClientData) -> bool:
    """Return whether the model draws random numbers in training: torch's generator or the scores change."""
    images = data.pool[data.rows[torch.arange(2, device=data.rows.device) % len(data)]]
    local.load(start)
    with torch.no_grad(), torch.random.fork_rng(devices=[start.device] if start.is_cuda else []):
        before = _generator(start)
        scores = local.model(images)
        # Light dropout may leave these few scores unchanged; the generator has advanced all the same.
        return not (torch.equal(before, _generator(start)) and torch.equal(scores, local.model(images)))


def disagreement(gradients: Gradients, local: LocalTrainer, start: Tensor, data: ClientData) -> str | None:
    """Compare the gradients of two clients, one with a padded batch, with the reference; return what differs.

    The batches have 3 and 2 samples, repeated if the client has fewer.
    """
    few = torch.arange(5, device=data.rows.device) % len(data)
    images, labels = data.pool[data.rows[few]], data.labels[few]
    trained = len(local.weights)
    weights = torch.stack((start[:trained], start[:trained] * 1.01))
    taken = torch.tensor([[0, 1, 2], [3, 4, 4]], device=few.device)
    shares = torch.tensor([[1 / 3, 1 / 3, 1 / 3], [0.5, 0.5, 0]], device=few.device)
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            found = gradients(weights, start[trained:], images[taken], labels[taken], shares)
        except Exception as refused:  # noqa: BLE001  a model or a compiler may raise anything; the reference path remains
            return (str(refused).strip() or type(refused).__name__).splitlines()[0]
    if not start.is_cuda and (slow := _unbatched(warned)):
        return f"torch has no batched version of {slow}"
    for row, batch in enumerate((slice(0, 3), slice(3, 5))):
        local.load(torch.cat((weights[row], start[trained:])))
        _, wanted = local.loss_and_gradient(images[batch], labels[batch])
        # Rounding errors scale with the sums they come from: inputs far above one give large gradients.
        scale = max(1.0, float(wanted.abs().max()))
        close = torch.allclose(found[row], wanted, rtol=_RELATIVE, atol=_ABSOLUTE * scale)
        if not close and not _agree(found[row], wanted, local.layout):
            return f"its gradients differ by up to {float((found[row] - wanted).abs().max()):.2g}"
    return None


def _unbatched(warned: list[warnings.WarningMessage]) -> str | None:
    """Return the operation that vmap would loop over, as for nn.LSTM: workers are then twice as fast on a CPU."""
    found = [match for each in warned if (match := _NO_BATCHING_RULE.search(str(each.message)))]
    return found[0][1] if found else None


def _agree(found: Tensor, wanted: Tensor, shape: Layout) -> bool:
    """Return whether every tensor of the two gradients agrees, measured by its norm."""
    sizes = shape.sizes[: shape.parameters]
    least = _SMALLEST * float(wanted.norm())
    parts = zip(found.split_with_sizes(sizes), wanted.split_with_sizes(sizes), strict=True)
    return all(float((mine - other).norm()) <= _OF_THE_NORM * max(float(other.norm()), least) for mine, other in parts)


def _generator(like: Tensor) -> Tensor:
    """Return the random state of this tensor's device."""
    return torch.cuda.get_rng_state(like.device) if like.is_cuda else torch.get_rng_state()
