"""How much noise a shard's sum carries."""

from typing import Annotated, final

import msgspec
from msgspec import Meta

from f2ed.core.errors import ConfigError

__all__ = ["Noise"]


@final
class Noise(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How much noise a shard's sum carries, and the delta at which its privacy is stated."""

    noise_multiplier: Annotated[float, Meta(gt=0, le=1e6)]
    """Standard deviation of the noise in a sum, as a multiple of the largest norm of an encoded update."""
    delta: Annotated[float, Meta(gt=0, lt=1)] = 1e-5
    """The probability that dp_epsilon does not cover; choose it well below 1 / (number of clients)."""

    def __post_init__(self) -> None:
        """Hold values made in Python to the bounds that files are held to."""
        if not 0 < self.noise_multiplier <= 1e6:
            raise ConfigError(
                f"a noise multiplier of {self.noise_multiplier}; it must be above 0 (1 is usual), or leave noise out"
            )
        if not 0 < self.delta < 1:
            raise ConfigError(f"a delta of {self.delta}; it must lie between 0 and 1, such as 1e-5")
