"""The server's own log: one line per round, with what it asked for, what it opened, and the nodes' newest lines."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from f2ed.core.errors import ConfigError
from f2ed.core.spill import forget
from f2ed.deployment.keyfiles import read_private
from f2ed.deployment.roster import Roster
from f2ed.deployment.transparency.heads import Heads
from f2ed.deployment.transparency.lines import SERVER, Blamed, Equivocation, Event, RoundClosed, ShardOutcome
from f2ed.deployment.transparency.store import LogFile
from f2ed.protocol.aggregation import Audit
from f2ed.protocol.primitives.crypto import digest, public_key
from f2ed.protocol.sharding import ClientId

__all__ = ["ServerLog", "server_log"]


class ServerLog(NamedTuple):
    """Writes a line for each round."""

    file: LogFile
    names: Mapping[ClientId, str]
    weights: Mapping[ClientId, int]
    heads: Heads

    def write(
        self,
        audit: Audit,
        contexts: Sequence[bytes],
        *,
        given: bytes,
        means: npt.NDArray[np.float32],
        errors: Mapping[ClientId, str],
        before: bytes,
        after: bytes,
    ) -> None:
        """Add a round: `contexts` are those of its shards, `means` the rows that opened.

        `given` is the digest of what clients were given, `before` and `after` are those of the model.
        """
        opened = {
            shard: digest(b"f2ed log opened 1", contexts[shard], _hashed(means[row]))
            for row, shard in enumerate(audit.opened)
        }
        shards = tuple(
            ShardOutcome(
                shard=each.shard,
                ctx=contexts[each.shard],
                survivors=each.survivors,
                weights=self._weights(each.survivors),
                opened=opened.get(each.shard, b""),
                dropped={self.names[who]: errors.get(who, why)[:500] for who, why in each.dropped.items()},
            )
            for each in audit.shards
        )
        heads, twice = self.heads.flush()
        round_ = RoundClosed(
            round=audit.round,
            job=audit.job,
            input=given,
            before=before,
            after=after,
            shards=shards,
            heads=heads,
        )
        found: list[Event] = [Equivocation(lines=pair) for pair in twice]
        found += [
            Blamed(round=audit.round, shard=each.shard, ctx=contexts[each.shard], blame=blame)
            for each in audit.shards
            for blame in each.blame
        ]
        self.file.append(*found, round_)

    def _weights(self, survivors: Iterable[ClientId]) -> tuple[int, ...]:
        """Return the weights that a sum was opened with; none if all are 1."""
        found = tuple(self.weights[client] for client in survivors)
        return found if set(found) - {1} else ()


def server_log(roster: Roster, key: Path | None, beside: Path | None, heads: Heads | None) -> ServerLog | None:
    """Return the log of the server that holds this key, beside its records; None if the roster names no key."""
    if key is None and not roster.server:
        return None
    if key is None:
        raise ConfigError("the roster names a key that signs the server's log; give its private half as server_key")
    private = read_private(key)
    if public_key(private) != roster.server or heads is None:
        raise ConfigError(
            f"{key} is not the key of the server's log that the roster names; the authority adds it with "
            "f2ed roster server, and signs again"
        )
    if beside is None:
        raise ConfigError("server_key without records or checkpoint; the server's log is written beside them")
    file = LogFile(beside.with_suffix(".log"), SERVER, private, roster.lineage, roster.digest, roster.serial)
    file.append()  # Whatever keeps it from being written is found before the first round.
    weights = {entry.id: entry.weight for entry in roster.clients}
    return ServerLog(file, {entry.id: entry.name for entry in roster.clients}, weights, heads)


def _hashed(mean: npt.NDArray[np.float32]) -> bytes:
    found = hashlib.sha256(mean.data).digest()
    forget(mean)
    return found
