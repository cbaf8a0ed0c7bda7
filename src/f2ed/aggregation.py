"""From clients to a robust mean: a secure sum in every shard, then an estimator over the shard means.

The server learns one mean per shard and no client's update; a shard that cannot be opened, or whose sum no honest
shard could have, is left out with its reason, and the round goes on.
"""

from collections.abc import Callable, Generator, Iterable, Mapping, MutableMapping
from concurrent.futures import ThreadPoolExecutor
from typing import Literal, NamedTuple, TypeVar, final

import msgspec
import numpy as np
import numpy.typing as npt

from f2ed.encoding import Encoding, Update, decode_mean, encode
from f2ed.errors import PeerError
from f2ed.secagg import Contribution, Mode, Outcome, Replies, Requests, SignedKey, Terms, quorum, secure_sum
from f2ed.sharding import ClientId, Plan

__all__ = [
    "Audit",
    "EpochKeys",
    "Exchange",
    "Protocol",
    "ShardAudit",
    "ShardMeans",
    "Task",
    "contribution",
    "robust_secure_mean",
    "shard_means",
    "shard_terms",
]

Exchange = Callable[[Mapping[ClientId, bytes]], Mapping[ClientId, bytes] | Iterable[tuple[ClientId, bytes]]]
"""Delivers requests and brings back replies; an absent reply is a dropped client.

A mapping will do. An iterator of (client, reply) pairs in the order of arrival keeps memory bounded, since each reply
is used up before the next is asked for. Waiting is the exchange's business: it stops when its deadline has passed,
which may differ from client to client. Shards in lockstep share one call per step; independent shards have calls of
their own, from several threads at a time, so that each has its own deadlines and none waits for another.
"""

EpochKeys = MutableMapping[tuple[int, tuple[ClientId, ...]], tuple[SignedKey, ...]]
"""Keys of `all-or-nothing` by (epoch, members): kept by the caller, they save a step in later rounds of an epoch."""

Means = npt.NDArray[np.float32]
Result = TypeVar("Result")

_MOST_ALL_OR_NOTHING = 10


@final
class Protocol(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How shards are kept secret. What is left out is chosen for the size of the shard."""

    mode: Literal["auto", "all-or-nothing", "dropout-tolerant"] = "auto"
    """`auto` is all-or-nothing up to 10 members, dropout-tolerant above."""
    colluders: int = 0
    threshold: int | None = None
    survivors: int | None = None
    consistent: bool = True


@final
class Task(msgspec.Struct, frozen=True, kw_only=True):
    """What is aggregated in one round."""

    job: str
    round: int
    model: bytes
    """SHA-256 of the global model that the clients start from."""
    coordinates: int
    encoding: Encoding
    roster: Mapping[ClientId, bytes]
    """Everyone's public Ed25519 key."""
    protocol: Protocol = Protocol()
    epoch: int | None = None
    """Of the keys; by default the plan's. A plan that is never dealt anew should still change its keys."""
    weights: Mapping[ClientId, int] | None = None
    """Public weights, none above the cap; without them all are equal."""
    weight_cap: int = 1
    secure: bool = True
    """False adds the same integers in the clear, for simulations: the same means, and no secrecy."""


@final
class ShardAudit(msgspec.Struct, frozen=True, kw_only=True):
    """What happened in one shard."""

    shard: int
    mode: Mode
    members: tuple[ClientId, ...]
    survivors: tuple[ClientId, ...]
    """In whose sum the shard was opened; empty if it stayed closed."""
    reason: str | None
    """Why there is no mean, or None if there is one."""
    dropped: dict[ClientId, str]
    clipped: int
    """Coordinates cut off, over all survivors."""
    shortened: int
    """Survivors whose update was shortened to the L2 clip."""
    bytes_up: int
    bytes_down: int


@final
class Audit(msgspec.Struct, frozen=True, kw_only=True):
    """What happened in a round: which guarantee held, and where."""

    job: str
    epoch: int
    round: int
    secure: bool
    colluders: int
    shards: tuple[ShardAudit, ...]

    @property
    def opened(self) -> tuple[int, ...]:
        """The shards that gave a mean, in order: the rows that the estimator saw."""
        return tuple(each.shard for each in self.shards if each.reason is None)

    @property
    def missing(self) -> dict[int, str]:
        """Why each other shard gave none."""
        return {each.shard: each.reason for each in self.shards if each.reason is not None}

    @property
    def hidden_among(self) -> int:
        """The fewest clients in whose sum a client of this round was hidden; 1 where nothing was hidden."""
        crowds = [len(each.survivors) for each in self.shards if each.survivors]
        return min(crowds, default=0) if self.secure else 1

    def summary(self) -> str:
        """Return one line for an operator."""
        if not self.secure:
            secrecy = "in the clear: the server saw every update"
        else:
            secrecy = f"every opened update hidden among at least {self.hidden_among} clients"
        dropped = sum(len(each.dropped) for each in self.shards)
        return (
            f"round {self.round}: {len(self.opened)} of {len(self.shards)} shards opened, {dropped} dropped; {secrecy}"
        )


class ShardMeans(NamedTuple):
    """The means [p', d] of the shards that opened, one row each in the order of `audit.opened`."""

    means: Means
    audit: Audit


def robust_secure_mean(
    exchange: Exchange,
    plan: Plan,
    estimator: Callable[[Means], Result],
    task: Task,
    *,
    keys: EpochKeys | None = None,
    independent: bool = False,
    threads: int = 2,
) -> tuple[Result, Audit]:
    """Return a robust mean of the shard means, and the record of how they came about.

    Raises `PeerError` if no shard opened; the rest is as in `shard_means`.
    """
    means, audit = shard_means(exchange, plan, task, keys=keys, independent=independent, threads=threads)
    if not len(means):
        shard, reason = next(iter(audit.missing.items()))
        raise PeerError(f"none of {len(plan.shards)} shards opened; shard {shard}: {reason}")
    return estimator(means), audit


def shard_means(
    exchange: Exchange,
    plan: Plan,
    task: Task,
    *,
    keys: EpochKeys | None = None,
    independent: bool = False,
    threads: int = 2,
) -> ShardMeans:
    """Drive all shards, in lockstep or each on its own, and return the means of those that opened.

    With `keys`, a dictionary to keep between rounds, the members of an all-or-nothing shard agree on keys once per
    epoch. `independent` shards need an exchange that may be called from several threads; `threads` unmask one sum.
    """
    book: EpochKeys = {} if keys is None else keys
    means = np.empty((len(plan.shards), task.coordinates), np.float32)
    shards = []
    for index, terms in enumerate(shard_terms(plan, task)):
        known = book.get((terms.epoch, terms.members), ())
        server = secure_sum(terms, task.roster, model=task.model, keys=known, threads=threads)
        shards.append(_Shard(terms, server, task.encoding, means[index]))
    if independent:
        with ThreadPoolExecutor(len(shards)) as pool:
            list(pool.map(lambda shard: _lockstep(exchange, [shard]), shards))
    else:
        _lockstep(exchange, shards)
    _remember(book, shards)
    audit = Audit(
        job=task.job,
        epoch=shards[0].terms.epoch,
        round=task.round,
        secure=task.secure,
        colluders=task.protocol.colluders,
        shards=tuple(shard.audit() for shard in shards),
    )
    # Close the gaps that missing shards left, without a second copy of the matrix.
    for row, index in enumerate(audit.opened):
        if row != index:
            means[row] = means[index]
    return ShardMeans(means[: len(audit.opened)], audit)


def shard_terms(plan: Plan, task: Task) -> tuple[Terms, ...]:
    """Return what each shard is asked to agree on."""
    return tuple(_terms(index, members, plan, task) for index, members in enumerate(plan.shards))


def contribution(update: Update, client: ClientId, *, key: bytes) -> Contribution:
    """Return what a client hands to `secagg.respond`: its update, encoded when the terms are known.

    `key` seeds the rounding: 32 bytes of `os.urandom`, or of a named stream in a simulation.
    """

    def encoded(terms: Terms) -> npt.NDArray[np.unsignedinteger]:
        encoding = Encoding(terms.clip, terms.l2, terms.bits, terms.ring)
        weight = terms.weight(client) / terms.weight_cap
        return encode(update, encoding, clients=len(terms.members), key=key, weight=weight)

    return encoded


def _terms(index: int, members: tuple[ClientId, ...], plan: Plan, task: Task) -> Terms:
    protocol, encoding = task.protocol, task.encoding
    mode: Mode
    if not task.secure:
        mode = "clear"
    elif protocol.mode == "auto":
        mode = "all-or-nothing" if len(members) <= _MOST_ALL_OR_NOTHING else "dropout-tolerant"
    else:
        mode = protocol.mode
    threshold, survivors = quorum(mode, len(members), protocol.colluders)
    if mode == "dropout-tolerant":
        threshold = protocol.threshold or threshold
        survivors = protocol.survivors or max(survivors, threshold)
    return Terms(
        job=task.job,
        epoch=plan.epoch if task.epoch is None else task.epoch,
        round=task.round,
        shard=index,
        members=members,
        mode=mode,
        threshold=threshold,
        survivors=survivors,
        colluders=protocol.colluders,
        consistent=protocol.consistent,
        length=encoding.length(task.coordinates),
        ring=encoding.ring_for(len(members)).bits,
        bits=encoding.bits,
        clip=encoding.clip,
        l2=encoding.l2,
        weights=() if task.weights is None else tuple(task.weights[client] for client in members),
        weight_cap=task.weight_cap,
    )


class _Shard:
    """One shard under way: its server, what it waits for, and in the end its row of the means."""

    def __init__(
        self, terms: Terms, server: Generator[Requests, Replies, Outcome], encoding: Encoding, row: Means
    ) -> None:
        self.terms = terms
        self.outcome: Outcome | None = None
        self._server = server
        self._encoding = encoding
        self._row = row
        self._reason: str | None = None
        self._clipped = (0, 0)
        self._bytes_up = self._bytes_down = 0

    def start(self) -> Requests:
        """Return the first requests."""
        return self._sent(next(self._server))

    def send(self, replies: Replies) -> Requests:
        """Hand over replies, or none when time is up; return the next requests once this step is over."""
        self._bytes_up += sum(map(len, replies.values()))
        try:
            return self._sent(self._server.send(replies))
        except StopIteration as stop:
            self._finish(stop.value)
            return {}

    def audit(self) -> ShardAudit:
        """Say what happened."""
        outcome = self.outcome
        return ShardAudit(
            shard=self.terms.shard,
            mode=self.terms.mode,
            members=self.terms.members,
            survivors=outcome.survivors if outcome else (),
            reason=self._reason,
            dropped=dict(outcome.dropped) if outcome else {},
            clipped=self._clipped[0],
            shortened=self._clipped[1],
            bytes_up=self._bytes_up,
            bytes_down=self._bytes_down,
        )

    def _sent(self, requests: Requests) -> Requests:
        self._bytes_down += sum(map(len, requests.values()))
        return requests

    def _finish(self, outcome: Outcome) -> None:
        """Decode at once, so that the total of a shard lives no longer than its round."""
        self.outcome, self._reason = outcome._replace(total=None), outcome.reason
        if outcome.total is None:
            return
        weights = sum(self.terms.weight(client) for client in outcome.survivors)
        try:
            decoded = decode_mean(
                outcome.total,
                self._encoding,
                clients=len(self.terms.members),
                survivors=len(outcome.survivors),
                weight=weights / self.terms.weight_cap,
                out=self._row,
            )
        except PeerError as error:
            self._reason = str(error)
        else:
            self._clipped = decoded.clipped


def _lockstep(exchange: Exchange, shards: Iterable[_Shard]) -> None:
    """Take one step in all of these shards per exchange, until each has its outcome."""
    requests = {client: (shard, request) for shard in shards for client, request in shard.start().items()}
    while requests:
        following: dict[ClientId, tuple[_Shard, bytes]] = {}
        asked = {client: shard for client, (shard, _) in requests.items()}
        replies = exchange({client: request for client, (_, request) in requests.items()})
        for client, reply in replies.items() if isinstance(replies, Mapping) else replies:
            # Whoever was not asked, or answered already, is not heard: it must not answer the next question too.
            if home := asked.pop(client, None):
                following |= {c: (home, request) for c, request in home.send({client: reply}).items()}
        for late in set(asked.values()):
            following |= {c: (late, request) for c, request in late.send({}).items()}
        requests = following


def _remember(book: EpochKeys, shards: Iterable[_Shard]) -> None:
    """Keep the keys of the shards that opened, and of no past epoch; after a failure the members are asked anew."""
    for shard in shards:
        place = (shard.terms.epoch, shard.terms.members)
        for old in [known for known in book if known == place or known[0] < shard.terms.epoch]:
            del book[old]
        if shard.outcome and shard.outcome.keys and shard.outcome.reason is None:
            book[place] = shard.outcome.keys
