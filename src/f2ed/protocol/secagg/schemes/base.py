"""The one interface behind which every secure-aggregation scheme works."""

# ruff: noqa: ARG002  the default methods ignore their arguments

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Mapping
from typing import Any, ClassVar, NamedTuple

import numpy as np

from f2ed.core.errors import ConfigError
from f2ed.core.spill import Zeros
from f2ed.protocol.primitives.ring import Words
from f2ed.protocol.secagg.blame import Blame
from f2ed.protocol.secagg.gather import Replies, Requests
from f2ed.protocol.secagg.member import Member, StepInput
from f2ed.protocol.secagg.messages import Message, Request
from f2ed.protocol.secagg.state import ClientState, Phase
from f2ed.protocol.secagg.terms import Terms
from f2ed.protocol.sharding import ClientId

__all__ = ["NO_KEYS", "ClientStep", "KeyAgreement", "Quorum", "Scheme", "ShardKeys", "ShardRound", "Summation"]

ClientStep = Callable[[Any, ClientState, Member, StepInput], tuple[ClientState, Message]]
"""A client's answer to one kind of request: a new state and a reply, or `Refusal`."""

Summation = Generator[Requests, Replies, tuple[tuple[ClientId, ...], Words]]
"""Yields requests, is sent replies; returns who is in the sum, and the sum."""

KeyAgreement = Generator[Requests, Replies, "ShardKeys"]
"""Yields requests, is sent replies; returns the keys that the members have agreed on."""


class Quorum(NamedTuple):
    """How many shares rebuild a secret, and the smallest number of members whose sum may be opened."""

    threshold: int
    min_crowd: int


class ShardKeys(NamedTuple):
    """What a server knows of the keys that the members of a shard hold."""

    since: int
    """The round in which they were made; fresh ones are always of a later round."""
    keyset: bytes
    """Digest of all members' keys."""


NO_KEYS = ShardKeys(0, b"")


class ShardRound(NamedTuple):
    """What a scheme's server knows of one round in one shard; it records who dropped out, and whom to blame."""

    terms: Terms
    roster: Mapping[ClientId, bytes]
    context: bytes
    keys: ShardKeys
    dropped: dict[ClientId, str]
    threads: int
    blame: list[Blame]
    zeros: Zeros = np.zeros
    """Makes the vectors that uploads are added to."""


class Scheme(ABC):
    """A way to add the updates of a shard. A new one is a subclass in its own file and an entry in the registry.

    Terms are checked before a scheme sees them, by server and client: the members, the ring, weights and noise, and
    the quorum of schemes that mask. `check` adds what only the scheme knows.
    """

    mode: ClassVar[str]
    """Its name, in settings and in the terms."""
    masked: ClassVar[bool] = True
    """Whether the server sees sums alone."""
    keeps_keys: ClassVar[bool] = False
    """Whether the members agree on keys once per epoch, before its first round."""
    tolerates_dropouts: ClassVar[bool] = False
    """Whether a sum opens without some of the members; `threshold` and `min_crowd` may then be chosen."""
    several_steps: ClassVar[bool] = False
    """Whether a round takes more than one message per client, so that a slow shard would delay others in lockstep."""
    steps: ClassVar[Mapping[type[Request], ClientStep]]
    """The client's side: what it does on each kind of request."""
    phases: ClassVar[tuple[type[Phase], ...]] = ()
    """The phases in which a client may be between two steps."""

    @abstractmethod
    def quorum(self, members: int, colluders: int = 0) -> Quorum:
        """Return the smallest quorum that is safe."""

    def check(self, terms: Terms) -> None:  # noqa: B027  most schemes have nothing to add
        """Raise `ConfigError` for terms that are unsafe under this scheme alone."""

    def agree_on_keys(
        self, terms: Terms, roster: Mapping[ClientId, bytes], dropped: dict[ClientId, str]
    ) -> KeyAgreement:
        """Lead the key agreement of an epoch, where the scheme keeps keys."""
        raise ConfigError(f"the mode {self.mode!r} keeps no keys; agree on keys only where `keeps_keys` is set")

    @abstractmethod
    def add(self, shard: ShardRound) -> Summation:
        """Lead one round, the server's side; raise `PeerError` with the reason if the sum stays closed."""
