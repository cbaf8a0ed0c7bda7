"""Metrics that clients measure and nobody sees of a single client: they are summed under masks, like an update.

A vector of metrics takes a round of the protocol to itself, with the roster's terms: clips, noise and crowd are those
of an update, and so is what it costs. It never meets the model's coordinates, and no estimator sees it. The authority
signs which metrics there are and between which ends they lie; a value beyond is moved to the end.
"""

from collections.abc import Mapping, Sequence
from math import isfinite, sqrt
from typing import Any, NamedTuple, final

import msgspec
import numpy as np
import numpy.typing as npt

from f2ed.core.errors import ConfigError
from f2ed.protocol.quantization.encoding import Encoding

__all__ = [
    "Measured",
    "MetricRule",
    "Values",
    "encoded_metrics",
    "merged_metrics",
    "metric_values",
    "read_metrics",
    "width",
]

_FORM = "write NAME=LOW..HIGH, or NAME=LOW..HIGHxBINS for a list of so many numbers"
Values = npt.NDArray[np.float64]


@final
class MetricRule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A metric by its name, and the ends between which it lies; or a list of so many, such as a histogram."""

    name: str
    low: float
    high: float
    bins: int = 0
    """How many numbers it has; 0 for a single one, which is no list."""

    def __post_init__(self) -> None:
        """Refuse an empty name or range, and too many numbers."""
        if not 0 < len(self.name) <= 80 or not 0 <= self.bins <= 10_000:
            raise ValueError(f"the metric {self.name[:80]!r} has {self.bins} bins; name it, and give at most 10000")
        if not (isfinite(self.low) and isfinite(self.high) and self.low < self.high):
            raise ValueError(f"the metric {self.name!r} lies between {self.low} and {self.high}, which is no range")
        for end in ("low", "high"):  # A signed 1 would be read back as 1.0, and no longer be what was signed.
            msgspec.structs.force_setattr(self, end, float(getattr(self, end)))

    @property
    def width(self) -> int:
        """The number of coordinates that it takes."""
        return max(1, self.bins)

    def __str__(self) -> str:
        """Write it as on the command line."""
        return f"{self.low:g}..{self.high:g}" + (f"x{self.bins}" if self.bins else "")


class Measured(NamedTuple):
    """What the server learns: one mean for each shard that opened."""

    rules: tuple[MetricRule, ...]
    shards: Mapping[int, Values]
    """The means of each shard, in the order of the rules."""
    clients: Mapping[int, int]
    """How many clients each mean is of."""

    def mean(self, name: str) -> float | list[float]:
        """Return the mean of a metric over all clients whose shard opened."""
        _, rule = _place(self.rules, name)
        total = sum(self.clients.values())
        rows = np.array([self.clients[shard] * means for shard, means in self.by_shard(name).items()])
        found = rows.sum(axis=0) / total
        return [float(each) for each in found] if rule.bins else float(found[0])

    def by_shard(self, name: str) -> dict[int, Values]:
        """Return the means of a metric in each shard that opened. A malicious client can set those of its shard."""
        place, _ = _place(self.rules, name)
        return {shard: means[place] for shard, means in self.shards.items()}

    def total(self, name: str) -> float | list[float]:
        """Return the sum of a metric over those clients; with weights on the roster, the mean times their number."""
        mean, clients = self.mean(name), sum(self.clients.values())
        return [clients * each for each in mean] if isinstance(mean, list) else clients * mean

    def means(self) -> dict[str, float | list[float]]:
        """Return the mean of every metric; nothing if no shard opened."""
        return {rule.name: self.mean(rule.name) for rule in self.rules} if self.shards else {}


def width(rules: Sequence[MetricRule]) -> int:
    """Return how many coordinates all metrics take."""
    return sum(rule.width for rule in rules)


def merged_metrics(before: Sequence[MetricRule], texts: Sequence[str]) -> tuple[MetricRule, ...]:
    """Return rules in the order of their names, of which new ones replace older ones; `NAME=` removes one."""
    rules = {rule.name: rule for rule in before}
    for text in texts:
        name, _, rest = text.partition("=")
        if not rest and name in rules:
            del rules[name]
            continue
        low, _, ends = rest.partition("..")
        high, cross, bins = ends.partition("x")
        try:
            rules[name] = MetricRule(name, float(low), float(high), int(bins) if cross else 0)
        except ValueError as error:
            raise ConfigError(f"the metric {text!r} cannot be read ({error}); {_FORM}") from None
    return tuple(rules[name] for name in sorted(rules))


def metric_values(rules: Sequence[MetricRule], found: Mapping[str, Any]) -> Values:
    """Return an app's metrics in the order of the rules; raise `ConfigError` if one is missing or no number.

    Metrics without a rule stay on the node.
    """
    values: list[float] = []
    for rule in rules:
        if rule.name not in found:
            raise ConfigError(
                f"the app returned no metric {rule.name!r}, which the roster names; it returned: {[*found]}"
            )
        given = found[rule.name]
        listed = given if isinstance(given, list) else [given]
        if len(listed) != rule.width or isinstance(given, list) != bool(rule.bins):
            raise ConfigError(f"the metric {rule.name!r} has {len(listed)} numbers; the roster says {rule}")
        values += [float(each) for each in listed]
    return np.array(values, np.float64)


def encoded_metrics(rules: Sequence[MetricRule], values: npt.NDArray[Any], encoding: Encoding) -> Values:
    """Return metrics as coordinates that no clip touches: each between 0 and the largest that is safe for all."""
    if values.shape != (width(rules),) or not np.isfinite(values).all():
        raise ConfigError("the app handed over metrics that are not finite, or not as many as the roster names")
    low, high = _ends(rules)
    share = (np.clip(values.astype(np.float64), low, high) - low) / (high - low)
    return share * _top(rules, encoding)


def read_metrics(
    rules: Sequence[MetricRule], means: npt.NDArray[Any], encoding: Encoding, survivors: Mapping[int, int]
) -> Measured:
    """Return what the opened means say; `survivors` has the number of clients of each, in the order of the rows."""
    low, high = _ends(rules)
    rows = low + np.asarray(means, np.float64) / _top(rules, encoding) * (high - low)
    return Measured(tuple(rules), dict(zip(survivors, rows, strict=True)), dict(survivors))


def _ends(rules: Sequence[MetricRule]) -> tuple[Values, Values]:
    widths = [rule.width for rule in rules]
    return np.repeat([rule.low for rule in rules], widths), np.repeat([rule.high for rule in rules], widths)


def _top(rules: Sequence[MetricRule], encoding: Encoding) -> float:
    """Return the coordinate of a metric at its upper end, so that all of them together stay below the clip norm."""
    # A little below: rounding must not carry a coordinate beyond the clip.
    return 0.999 * min(encoding.clip_value, encoding.clip_norm / sqrt(width(rules)))


def _place(rules: Sequence[MetricRule], name: str) -> tuple[slice, MetricRule]:
    start = 0
    for rule in rules:
        if rule.name == name:
            return slice(start, start + rule.width), rule
        start += rule.width
    raise ConfigError(f"there is no metric {name!r}; the roster names {', '.join(rule.name for rule in rules)}")
