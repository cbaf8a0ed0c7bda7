"""A survey of the sizes of honest updates under masks, from which the authority chooses the clips that it signs.

Each client answers, for a number of powers of two, whether its update is within it: 1 or 0. The answers are a masked
metric, so the server learns for each shard how many members are within each power, and nothing of a single client. The
clip is still the one that the authority signs: what a server learned by itself, nodes could not check.

A malicious client can set the counts of its whole shard: masks hide what it sends, and only the sum has to be in range.
So m of them can move a count by the number s of clients in the m largest shards. The smallest power within which at
least n - s of n clients are said to be is therefore never beyond what all honest updates need, whatever the malicious
ones send, and at least n - 2s honest clients are within it.
"""

from collections.abc import Mapping
from math import isfinite
from typing import NamedTuple

import numpy as np

from f2ed.core.errors import ConfigError
from f2ed.deployment.masked_metrics import Measured, Values

__all__ = ["POWERS", "SIZES", "SURVEY", "SURVEY_METRIC", "ClipProposal", "propose_clips", "survey_answers"]

SURVEY = "clip-survey"
"""The name of the metric."""
POWERS = range(-20, 12)
"""The exponents that are asked about: from about a millionth to 2048."""
SIZES = ("coordinate", "buffer", "norm")
"""What is surveyed: the largest coordinate of the trained arrays and of the buffers, and the L2 norm of the former."""
SURVEY_METRIC = f"{SURVEY}=0..1x{len(SIZES) * len(POWERS)}"
"""What the authority signs with `f2ed roster sign --metric`."""


def survey_answers(sizes: Mapping[str, float]) -> list[float]:
    """Return a client's answers: for each of `SIZES` and each power of two, 1 if it is within the power, else 0."""
    found = [sizes[name] for name in SIZES]
    if not all(map(isfinite, found)) or min(found) < 0:
        raise ConfigError(f"an update of sizes {dict(sizes)}; they must be finite, so train again or leave it out")
    return [float(size <= 2.0**power) for size in found for power in POWERS]


class ClipProposal(NamedTuple):
    """Clips that cut nothing of the updates that were surveyed, with a margin, as powers of two."""

    clip_value: float
    clip_norm: float
    buffer_clip: float | None
    """None if the model has no buffers that change."""
    clients: int
    """How many clients were surveyed."""
    malicious: int
    margin: float

    def options(self) -> str:
        """Return the options of `f2ed roster sign` that say so; a norm is clipped only where the authority wants it."""
        buffers = "" if self.buffer_clip is None else f" --buffer-clip {self.buffer_clip:g}"
        return f"--clip-value {self.clip_value:g}{buffers}"

    def __str__(self) -> str:
        """State it for an operator."""
        assumed = f", {self.malicious} of them assumed malicious" if self.malicious else ""
        return (
            f"surveyed {self.clients} clients{assumed}; with a margin of {self.margin:g}: f2ed roster sign ROSTER "
            f"{self.options()} (no surveyed update is longer than about {self.clip_norm / self.margin:g}; for noise, "
            f"sign --clip-norm {self.clip_norm:g} as well)"
        )


def propose_clips(measured: Measured, *, malicious: int = 0, margin: float = 4.0) -> ClipProposal:
    """Return clips from the masked answers of a survey; raise `ConfigError` where they allow none.

    Updates of later rounds differ, so each clip is the power of two that is found, times `margin`.
    """
    if not margin >= 1:
        raise ConfigError(f"a margin of {margin}; it must be 1 or more, or honest updates are cut")
    if not measured.shards:
        raise ConfigError("no shard opened, so no update was surveyed; see the log, and measure again")
    clients = sum(measured.clients.values())
    doubtful = sum(sorted(measured.clients.values(), reverse=True)[: max(0, malicious)])
    if malicious < 0 or 2 * doubtful >= clients:
        raise ConfigError(
            f"{malicious} malicious clients may set what {doubtful} of {clients} surveyed clients seem to answer, all "
            "of their shards; a survey says something where these are fewer than half"
        )
    found = measured.by_shard(SURVEY)
    if any(len(means) != len(SIZES) * len(POWERS) for means in found.values()):
        raise ConfigError(f"the roster's metric {SURVEY!r} is another; the authority signs --metric {SURVEY_METRIC}")
    # A share beyond 0 and 1 is a lie; it counts no more than the largest one that could be true.
    counts = np.sum([measured.clients[shard] * np.clip(means, 0, 1) for shard, means in found.items()], axis=0)
    wide = len(POWERS)
    sizes = {
        name: _within(name, counts[place * wide : (place + 1) * wide], clients - doubtful)
        for place, name in enumerate(SIZES)
    }
    smallest = 2.0 ** POWERS[0]
    return ClipProposal(
        clip_value=margin * sizes["coordinate"],
        clip_norm=margin * sizes["norm"],
        buffer_clip=margin * sizes["buffer"] if sizes["buffer"] > smallest else None,
        clients=clients,
        malicious=malicious,
        margin=margin,
    )


def _within(name: str, counts: Values, enough: int) -> float:
    """Return the smallest power of two within which enough clients are."""
    # Sums of whole numbers come back a little off.
    power = next((power for power, count in zip(POWERS, counts, strict=True) if count >= enough - 0.5), None)
    if power is None:
        raise ConfigError(
            f"fewer than {enough} clients have a {name} of at most {2.0 ** POWERS[-1]:g}, where a survey ends; train "
            "with smaller steps, or scale the model"
        )
    return 2.0**power
