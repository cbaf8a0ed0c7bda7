"""The settings of a federation with helpers, and the terms of a round that follow from them."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Annotated, Literal, final

import msgspec
from msgspec import Meta

from f2ed.core.errors import ConfigError, SettingError
from f2ed.core.settings import Settings
from f2ed.estimators import Estimator
from f2ed.protocol.helpers.sketch import folding_width
from f2ed.protocol.helpers.terms import MIN_CROWD, ROLES, Relay, Role, Terms
from f2ed.protocol.helpers.verdict import rule_bytes
from f2ed.protocol.primitives.hybrid import HYBRID, Agreement
from f2ed.protocol.sharding import ClientId

__all__ = ["Guard", "HelpersProtocol", "Party", "fixed_groups", "helper_terms"]

Guard = Literal["groups", "nested"]


@final
class HelpersProtocol(Settings, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How updates are hidden with helpers. What is left out follows from the number of clients."""

    guard: Guard = "groups"
    """Which sums may be opened over the rounds: of whole fixed groups, or of nested sets within an epoch."""
    size: Annotated[int, Meta(ge=2)] = 4
    """Of a group; or by how many nested sets shrink at least."""
    epoch: Annotated[int, Meta(ge=1)] = 10
    """Rounds in which a strike counts, and in which survivors are nested."""
    crowd: Annotated[int, Meta(ge=MIN_CROWD)] | None = None
    """The smallest number of clients in an opened sum; by default a quarter of them."""
    colluders: Annotated[int, Meta(ge=0)] = 0
    """How many clients may collude with one of the parties."""
    sketch: Annotated[int, Meta(ge=9, le=1 << 17)] | None = None
    """Columns of the sketch; by default 16 for each client, and at least 4096."""
    foldings: Annotated[int, Meta(ge=2, le=8)] = 3
    tests: Annotated[int, Meta(ge=1, le=1024)] = 80
    relay: Relay = "sketch"
    """Whether the mixer checks a few masked rows, or all of them."""
    spot: Annotated[int, Meta(ge=1)] = 8
    """How many rows it checks with `relay = "sketch"`."""
    accusations: Annotated[int, Meta(ge=0)] | None = None
    """How many clients a helper may accuse in a round; by default a quarter of them."""
    agreement: Agreement = HYBRID

    def __post_init__(self) -> None:
        """Refuse what no number of clients makes safe."""
        super().__post_init__()
        try:
            folding_width(self.columns_for(1), self.foldings)
        except ConfigError as error:
            raise SettingError(f"sketch: {error}") from None

    def crowd_for(self, clients: int) -> int:
        """Return the smallest number of clients in a sum."""
        return self.crowd or max(MIN_CROWD, self.colluders + 2, clients // 4)

    def columns_for(self, clients: int) -> int:
        """Return the columns of the sketch, at most."""
        return self.sketch or max(4096, 16 * clients)


@final
class Party(msgspec.Struct, frozen=True):
    """Who runs one of server, mixer and judge, and its public Ed25519 key."""

    operator: str
    key: bytes


def fixed_groups(members: Sequence[ClientId], size: int) -> tuple[tuple[ClientId, ...], ...]:
    """Return groups of at least so many, in the order of the ids; the last ones are larger where it does not divide."""
    count = len(members) // size
    if count < 1:
        raise ConfigError(f"groups of {size} from {len(members)} clients; use smaller groups")
    bounds = [place * len(members) // count for place in range(count + 1)]
    return tuple(tuple(members[first:last]) for first, last in pairwise(bounds))


def helper_terms(
    settings: HelpersProtocol,
    *,
    policy: bytes,
    job: str,
    round_: int,
    members: Sequence[ClientId],
    coordinates: int,
    clip_norm: float,
    rule: Estimator,
    parties: Mapping[Role, Party],
) -> Terms:
    """Return the terms of a round; every party derives its own from the policy and compares."""
    ordered, clients = tuple(sorted(members)), len(members)
    server, mixer, judge = (parties[role] for role in ROLES)
    nested = settings.guard == "nested"
    return Terms(
        policy=policy,
        job=job,
        epoch=round_ // settings.epoch,
        round=round_,
        epoch_rounds=settings.epoch,
        members=ordered,
        coordinates=coordinates,
        clip_norm=clip_norm,
        rule=rule_bytes(rule),
        crowd=settings.crowd_for(clients),
        colluders=settings.colluders,
        groups=() if nested else fixed_groups(ordered, settings.size),
        step=settings.size if nested else 0,
        sketch=settings.columns_for(clients),
        foldings=settings.foldings,
        tests=settings.tests,
        relay=settings.relay,
        spot=settings.spot,
        accusations=max(1, clients // 4) if settings.accusations is None else settings.accusations,
        operators=(server.operator, mixer.operator, judge.operator),
        keys=(server.key, mixer.key, judge.key),
        agreement=settings.agreement,
    )
