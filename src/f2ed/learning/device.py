"""The device to compute on, by name."""

import torch

from f2ed.core.errors import ConfigError

__all__ = ["found_device"]


def found_device(wanted: str | torch.device) -> torch.device:
    """Return a device that is there; `auto` is a GPU if there is one."""
    if wanted == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        found = torch.device(wanted)
    except RuntimeError:
        raise ConfigError(f"there is no device {wanted!r}; use auto, cpu or cuda") from None
    if found.type == "cuda" and not torch.cuda.is_available():
        raise ConfigError(f"device {wanted}: torch finds no GPU here; use cpu")
    return found
