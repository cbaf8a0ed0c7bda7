"""The rule that is recommended with helpers: the best in a search for attacks that leaves enough clients in the sum."""

from typing import NamedTuple

from f2ed.estimators import Estimator, FilterL2, Resilience
from f2ed.protocol.helpers import HelpersProtocol

__all__ = ["RecommendedRule", "least_crowd", "recommended_groups", "recommended_rule"]

_SIZES = (4, 3, 2)
"""Group sizes to choose from, the best protection first."""


class RecommendedRule(NamedTuple):
    """A rule, and the group size and the smallest sum that it comes with."""

    rule: Estimator
    size: int
    crowd: int


def least_crowd(settings: HelpersProtocol, clients: int, rejected: int) -> int:
    """Return how many clients are left if each of so many rejected ones is in a group of its own."""
    return max(0, clients - rejected * (settings.size if settings.guard == "groups" else 1))


def recommended_rule(
    settings: HelpersProtocol, *, clients: int, malicious: int, crowd: int | None = None
) -> RecommendedRule:
    """Return Resilience where it leaves the crowd in the worst case, else FilterL2.

    Resilience let in the least of the backdoors that were searched for it, and rejects 3f clients in every round.
    With fixed groups each may take its group with it. With nested sets who is rejected once stays out, and every round
    rejects others.
    """
    share, size = malicious / clients, settings.size
    strict = Resilience(contamination=share)
    left = least_crowd(settings, clients, (1 + len(strict.flatten)) * malicious)
    wanted = settings.crowd_for(clients) if crowd is None else crowd
    if settings.guard == "groups" and 0 < malicious <= strict.max_f(clients) and left >= wanted:
        return RecommendedRule(strict, size, left)
    return RecommendedRule(FilterL2(contamination=share), size, least_crowd(settings, clients, 2 * malicious))


def recommended_groups(*, clients: int, malicious: int, crowd: int | None = None) -> RecommendedRule:
    """Return the recommended rule with the largest groups for which it is Resilience, or that leave the crowd."""
    wanted = HelpersProtocol().crowd_for(clients) if crowd is None else crowd
    found = [
        recommended_rule(HelpersProtocol(size=size), clients=clients, malicious=malicious, crowd=crowd)
        for size in _SIZES
    ]
    strict = [each for each in found if isinstance(each.rule, Resilience)]
    return next(iter(strict or [each for each in found if each.crowd >= wanted]), found[-1])
