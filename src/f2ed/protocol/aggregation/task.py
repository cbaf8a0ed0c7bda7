"""What a round asks of the clients, and the terms that follow for each shard."""

from collections.abc import Iterable, Mapping
from typing import Annotated, final

import msgspec

from f2ed.core.settings import Settings
from f2ed.protocol.dp.cost import privacy_cost
from f2ed.protocol.primitives.hybrid import HYBRID, Agreement
from f2ed.protocol.quantization.encoding import Encoding
from f2ed.protocol.secagg import MaskedMode, ModeChoice, Terms, choose_mode, scheme_of
from f2ed.protocol.secagg.schemes import Clear, Quorum
from f2ed.protocol.sharding import Assignment, ClientId

__all__ = ["Protocol", "Task", "agreed_encoding", "opening_cost", "row_weights", "shard_terms", "terms_of"]


@final
class Protocol(Settings, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How shards are kept secret. What is left out is chosen for the size of the shard."""

    mode: ModeChoice = "auto"
    """`auto` chooses by the size of the shard; see `choose_mode`."""
    colluders: Annotated[int, msgspec.Meta(ge=0)] = 0
    """How many members of a shard may collude with the server."""
    threshold: int | None = None
    """How many shares rebuild a secret, in schemes that tolerate dropouts."""
    min_crowd: int | None = None
    """The smallest number of members whose sum may be opened, in schemes that tolerate dropouts; never less than
    what is safe for the shard."""
    agreement: Agreement = HYBRID
    """How two members agree on a secret; `x25519` alone costs less and falls to a quantum computer."""

    def mode_for(self, members: int) -> MaskedMode:
        """Return the mode of a shard with this many members."""
        return choose_mode(self.mode, members)

    def quorum_for(self, mode: str, members: int) -> Quorum:
        """Return the quorum of a shard with this many members."""
        scheme = scheme_of(mode)
        threshold, min_crowd = scheme.quorum(members, self.colluders)
        if scheme.tolerates_dropouts:
            threshold = self.threshold or threshold
            min_crowd = max(min_crowd, threshold, self.min_crowd or 0)
        return Quorum(threshold, min_crowd)

    def carriers_for(self, members: int) -> int:
        """Return how many honest members the smallest sum of such a shard has that may be opened."""
        _, min_crowd = self.quorum_for(self.mode_for(members), members)
        return max(1, min_crowd - self.colluders)


@final
class Task(msgspec.Struct, frozen=True, kw_only=True):
    """What is aggregated in one round."""

    job: str
    round: int
    model: bytes
    """SHA-256 of what the clients are given: the global model, and in a deployment all else that training sees."""
    coordinates: int
    encoding: Encoding
    roster: Mapping[ClientId, bytes]
    """Everyone's public Ed25519 key."""
    protocol: Protocol = Protocol()
    epoch: int | None = None
    """Of the keys; by default the assignment's. Fixed shards should still change their keys from time to time."""
    weights: Mapping[ClientId, int] | None = None
    """Public weights, none above the cap; without them all are equal."""
    weight_cap: int = 1
    noise: float = 0.0
    """Standard deviation of the noise in a shard's sum, as a multiple of the encoding's sensitivity; 0 for none."""
    groups: tuple[tuple[ClientId, ...], ...] = ()
    """Who is opened together or not at all; empty if everyone is their own group."""
    secure: bool = True
    """False adds the same integers in the clear, for simulations: the same means, and no secrecy."""


def shard_terms(assignment: Assignment, task: Task) -> tuple[Terms, ...]:
    """Return the terms that each shard is asked to agree on."""
    return tuple(terms_of(assignment, task, shard) for shard in range(len(assignment.shards)))


def terms_of(assignment: Assignment, task: Task, shard: int) -> Terms:
    """Return the terms of one shard: the server states them, and each client derives its own."""
    members, protocol, encoding = assignment.shards[shard], task.protocol, task.encoding
    mode = protocol.mode_for(len(members)) if task.secure else Clear.mode
    threshold, min_crowd = protocol.quorum_for(mode, len(members))
    # As many in the clear as under masks, so that both give the same bits.
    carriers = protocol.carriers_for(len(members)) if task.noise else 1
    noisy = encoding.noisy(task.noise, coordinates=task.coordinates, carriers=carriers)
    return Terms(
        job=task.job,
        epoch=assignment.epoch if task.epoch is None else task.epoch,
        round=task.round,
        shard=shard,
        members=members,
        mode=mode,
        threshold=threshold,
        min_crowd=min_crowd,
        colluders=protocol.colluders,
        length=encoding.length(task.coordinates),
        ring=noisy.ring_for(len(members)).bits,
        bits=encoding.bits,
        clip_value=encoding.clip_value,
        clip_norm=encoding.clip_norm,
        weights=() if task.weights is None else tuple(task.weights[client] for client in members),
        weight_cap=task.weight_cap,
        noise=task.noise,
        carriers=carriers,
        groups=tuple(group for group in task.groups if group[0] in members),
        agreement=protocol.agreement,
    )


def row_weights(task: Task, opened: Iterable[Iterable[ClientId]]) -> tuple[int, ...] | None:
    """Return how much each opened sum counts, given its survivors: as much as these together; None without weights."""
    weights = task.weights
    return None if weights is None else tuple(sum(weights[client] for client in some) for some in opened)


def agreed_encoding(terms: Terms, coordinates: int) -> Encoding:
    """Return how an update is encoded under these terms: the same for the clients and the server."""
    quiet = Encoding(terms.clip_value, terms.clip_norm, terms.bits, terms.ring)
    return quiet.noisy(terms.noise, coordinates=coordinates, carriers=terms.carriers)


def opening_cost(terms: Terms, *, coordinates: int, survivors: int) -> float | None:
    """Return the zCDP rho that an opening under these terms costs each survivor; None without noise."""
    return privacy_cost(
        agreed_encoding(terms, coordinates),
        coordinates=coordinates,
        survivors=survivors,
        colluders=terms.colluders,
        clear=not scheme_of(terms.mode).masked,
    )
