"""The planner for helpers: how many attackers single clients withstand, and in what crowd they hide."""

from math import sqrt
from typing import final

import msgspec

from f2ed.core.errors import ConfigError
from f2ed.estimators import Resilience
from f2ed.guarantees.helpers_rule import RecommendedRule, least_crowd, recommended_groups
from f2ed.guarantees.kept_sets import expected_cosine
from f2ed.guarantees.plan_text import count
from f2ed.guarantees.robustness import check_counts
from f2ed.protocol.helpers import HelpersProtocol
from f2ed.records import text
from f2ed.records.grading import SHARDS_PER_ATTACKER, Region, region

__all__ = ["HelpersPlan", "nested_warning", "plan_helpers"]

_UPLOAD_BYTES = 8
"""For each parameter."""
AWAY = 0.05
"""The share of clients that are assumed to be away in a round."""
TELLING = 0.5
"""A cosine above this is worth a warning."""
_CLIP = (
    "State a clip_norm of about the median length of honest updates: one that is much longer than the others stands "
    "out of a sum."
)


@final
class HelpersPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What the planner found for helpers."""

    clients: int
    malicious: int
    min_crowd: int
    """The smallest sum that may be opened."""
    tolerated: int
    """The most malicious clients that the theorem covers."""
    region: Region
    expected_crowd: int
    """Clients in the sum if the rule rejects as many as there are malicious ones, each in a group of its own."""
    worst_crowd: int
    """The same if it rejects twice as many, which is the most that FilterL2 takes away."""
    group: int
    """Over all rounds: the smallest group of clients whose sum is determined; 1 if single clients may be."""
    cosine: float
    """Over all rounds: between the server's best guess and a client's round-invariant component, at most."""
    rounds: int
    recovered: float
    """The same after so many rounds, on average, if one client in 20 is away and a lying server holds the model."""
    bytes_per_parameter: int
    rule: str
    """The recommended rule, as TOML."""
    rule_title: str
    rule_size: int
    """The size of the groups that go with it."""
    rule_crowd: int
    """The smallest sum with it."""
    ok: bool
    verdict: str
    warnings: tuple[str, ...]
    why: tuple[str, ...]


def plan_helpers(
    *,
    clients: int,
    malicious: int,
    min_crowd: int | None = None,
    settings: HelpersProtocol | None = None,
    rounds: int = 100,
) -> HelpersPlan:
    """Judge a federation of so many clients with helpers, and what so many rounds tell about a client."""
    check_counts(clients, malicious)
    settings = settings or HelpersProtocol()
    wanted = min_crowd or settings.crowd_for(clients)
    if not 1 <= wanted <= clients:
        raise ConfigError(f"a crowd of {wanted} from {clients} clients; ask for 1 to {clients}")
    fixed = settings.guard == "groups"
    crowds = [least_crowd(settings, clients, rejected) for rejected in (malicious, 2 * malicious)]
    where = region(malicious, clients)
    group = settings.size if fixed else 1
    ok = where == "theorem" and crowds[1] >= wanted
    recovered = expected_cosine(settings, clients=clients, rounds=rounds, away=AWAY)
    best = recommended_groups(clients=clients, malicious=malicious, crowd=wanted)
    return HelpersPlan(
        clients=clients,
        malicious=malicious,
        min_crowd=wanted,
        tolerated=max(0, (clients - 1) // SHARDS_PER_ATTACKER),
        region=where,
        expected_crowd=crowds[0],
        worst_crowd=crowds[1],
        group=group,
        cosine=1 / sqrt(group),
        rounds=rounds,
        recovered=recovered,
        bytes_per_parameter=_UPLOAD_BYTES,
        rule=f'{{kind = "{best.rule.__struct_config__.tag}", contamination = {malicious / clients:g}}}',
        rule_title=type(best.rule).title,
        rule_size=best.size,
        rule_crowd=best.crowd,
        ok=ok,
        verdict=_verdict(clients, malicious, wanted, crowds[1], where),
        warnings=_warnings(settings, clients, malicious, rounds, recovered),
        why=(
            f"{text.contaminated(malicious, clients, 'updates')}: {text.region(where)}.",
            _over_rounds(settings),
            _about_rule(best),
            _CLIP,
            "This holds while no two of server, mixer and judge collude: two of them together see every update.",
            "The judge, and clients that collude with it, learn the distances between all updates, by name.",
        ),
    )


def _verdict(clients: int, malicious: int, wanted: int, crowd: int, where: Region) -> str:
    if where != "theorem":
        return f"No guarantee: {clients} clients against {count(malicious)} violate 12·m < n."
    if crowd < wanted:
        return f"The theorem holds, but a sum may have {crowd} clients, below the min_crowd of {wanted}."
    return f"Guaranteed: {clients} clients tolerate {count(malicious)}, and a sum has at least {crowd} of them."


def nested_warning(settings: HelpersProtocol, *, clients: int, rounds: int) -> str | None:
    """Return what nested sets give away over so many rounds; None where fixed groups bound it, or it is little."""
    if settings.guard == "groups":
        return None
    found = expected_cosine(settings, clients=clients, rounds=rounds, away=AWAY)
    return _nested(settings, rounds, found) if found > TELLING else None


def _warnings(
    settings: HelpersProtocol, clients: int, malicious: int, rounds: int, recovered: float
) -> tuple[str, ...]:
    if settings.guard == "nested":
        return (_nested(settings, rounds, recovered),) if recovered > TELLING else ()
    least = clients - settings.size * 2 * malicious
    if 2 * least >= clients:
        return ()
    cost = (
        f"Fixed groups of {settings.size} cost crowd: a rejected client takes {settings.size - 1} others with it, so "
        f"{2 * malicious} rejected ones leave {max(0, least)} of {clients} in the sum, where nested sets would leave "
        f"{clients - 2 * malicious}. Smaller groups cost less and bound less."
    )
    return (cost,)


def _nested(settings: HelpersProtocol, rounds: int, recovered: float) -> str:
    return (
        f"Nested sets: after {rounds} rounds in which one client in 20 is away, a lying server that holds the model "
        f"still recovers a client's update with a cosine of {recovered:.2f}. Every epoch of {settings.epoch} rounds "
        f"begins with a new set, and sets that differ by few clients are equations for these. Fixed groups of "
        f"{settings.size} bound it by {1 / sqrt(settings.size):.2f} for ever."
    )


def _about_rule(best: RecommendedRule) -> str:
    if isinstance(best.rule, Resilience):
        return (
            f"Recommended: Resilience with groups of {best.size}. Of backdoors that were searched for each rule it let "
            "in the least. The theorem is FilterL2's. Resilience has none, and rejects three clients for each that may "
            "be malicious."
        )
    return "Recommended: FilterL2. Resilience, which withstands more backdoors, would leave too few clients in the sum."


def _over_rounds(settings: HelpersProtocol) -> str:
    if settings.guard == "groups":
        return (
            f"Over all rounds the server learns sums of whole groups of {settings.size}: cosine "
            f"{1 / sqrt(settings.size):.2f} with a client. A rejected client takes its group with it."
        )
    return (
        f"Within {settings.epoch} rounds the sums shrink by at least {settings.size} clients. Over several epochs a "
        "lying server reaches single clients; fixed groups prevent that."
    )
