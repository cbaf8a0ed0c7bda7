"""All shards of a round, in lockstep or each on its own: their means, and a robust mean over those."""

from collections.abc import Callable, Iterable
from typing import NamedTuple, TypeVar

import numpy as np

from f2ed.core.errors import PeerError
from f2ed.core.spill import Zeros, forget
from f2ed.protocol.aggregation.audit import Audit
from f2ed.protocol.aggregation.conversation import Exchange, each_alone, lockstep
from f2ed.protocol.aggregation.key_setup import EpochKeys
from f2ed.protocol.aggregation.shard import Means, Shard
from f2ed.protocol.aggregation.task import Task, agreed_encoding, shard_terms
from f2ed.protocol.secagg import secure_sum
from f2ed.protocol.sharding import Assignment

__all__ = ["ShardMeans", "robust_secure_mean", "shard_means"]

Result = TypeVar("Result")


class ShardMeans(NamedTuple):
    """The means [p', d] of the shards that opened, one row each in the order of `audit.opened`."""

    means: Means
    audit: Audit


def robust_secure_mean(
    exchange: Exchange,
    assignment: Assignment,
    estimator: Callable[[Means], Result],
    task: Task,
    *,
    keys: EpochKeys | None = None,
    independent: bool = False,
    threads: int = 2,
) -> tuple[Result, Audit]:
    """Return a robust mean of the shard means, and the record of the round.

    Raises `PeerError` if no shard opened; the rest is as in `shard_means`.
    """
    means, audit = shard_means(exchange, assignment, task, keys=keys, independent=independent, threads=threads)
    if not len(means):
        shard, reason = next(iter(audit.missing.items()))
        raise PeerError(f"none of {len(assignment.shards)} shards opened; shard {shard}: {reason}")
    return estimator(means), audit


def shard_means(
    exchange: Exchange,
    assignment: Assignment,
    task: Task,
    *,
    keys: EpochKeys | None = None,
    independent: bool = False,
    meanwhile: Callable[[], None] | None = None,
    threads: int = 2,
    zeros: Zeros = np.zeros,
) -> ShardMeans:
    """Drive all shards, in lockstep or each on its own, and return the means of those that opened.

    With `keys`, a dictionary to keep between rounds, the members of a shard agree on keys once per epoch, where its
    scheme keeps any. `independent` shards need an exchange that may be called from several threads; `meanwhile` is
    called every second until all of them are done. `threads` unmask one sum. `zeros` makes the sums and the matrix of
    means, of which a `Spill` puts some into files.
    """
    book: EpochKeys = {} if keys is None else keys
    means = zeros((len(assignment.shards), task.coordinates), np.float32)
    shards = []
    for index, terms in enumerate(shard_terms(assignment, task)):
        known = book.get((terms.epoch, terms.members))
        server = secure_sum(terms, task.roster, model=task.model, keys=known, threads=threads, zeros=zeros)
        shards.append(Shard(terms, server, agreed_encoding(terms, task.coordinates), means[index]))
    if independent:
        each_alone(exchange, [shard.conversation for shard in shards], meanwhile)
    else:
        lockstep(exchange, [shard.conversation for shard in shards])
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
            forget(means[: index + 1])
    return ShardMeans(means[: len(audit.opened)], audit)


def _remember(book: EpochKeys, shards: Iterable[Shard]) -> None:
    """Keep the keys that the next round may use, and none of a past epoch; otherwise the members make fresh ones."""
    for shard in shards:
        place = (shard.terms.epoch, shard.terms.members)
        for old in [known for known in book if known == place or known[0] < shard.terms.epoch]:
            del book[old]
        if shard.keys is not None:
            book[place] = shard.keys
