"""The leak forecast: what a server could infer about single clients from the shard sums of many rounds.

Every opened sum is a linear equation in the clients' updates. To the extent that a client sends the same in each round
(its data stay the same), the server can solve the equations of many rounds. Two numbers measure how far that goes.
`exposed` counts the clients whose own update the equations determine: exact, by elimination. `cosine` is how well the
round-invariant component of an update can be recovered when each round adds fresh noise to it: what the best linear
guess reaches, 1 for full recovery. With fixed shards it never exceeds 1/√s.
"""

import hashlib
import math
from collections.abc import Iterable, Iterator
from typing import final

import msgspec
import numpy as np
from numpy.typing import NDArray

from f2ed.core.errors import ConfigError
from f2ed.guarantees.leakage.exposure import Sums, exposure
from f2ed.protocol.secagg import MaskedMode, scheme_of
from f2ed.protocol.secagg.schemes import AllOrNothing
from f2ed.protocol.sharding import Sampling
from f2ed.protocol.sharding.schedule import Batches, EveryKRounds, Schedule
from f2ed.records import LeakForecast, text

__all__ = ["ScheduleLeak", "forecast_leak", "opened_sums", "recovered_cosine", "safe_k", "smallest_k"]

# The cosine depends on the size of a shard and the number of rounds, and hardly on n beyond a few hundred clients.
_CLIENTS_FOR_COSINE = 400
_MIN_CROWD = 2.0


@final
class ScheduleLeak(msgspec.Struct, frozen=True, kw_only=True):
    """What a schedule reveals within the planned rounds; `f2ed.records.text.leak` puts it into words."""

    clients: int
    shards: int
    schedule: Schedule
    rounds: int
    client_dropout: float
    mode: MaskedMode
    clients_per_round: int | None = None
    """None where everyone takes part in every round."""
    exposed: int
    """Clients whose own update the sums determine, as far as it is the same in all rounds."""
    first: int | None
    """The number of rounds after which the first of them is determined."""
    last: int | None
    """The number of rounds after which every client is determined; None if some never are."""
    crowd: int
    """The smallest group whose sum is determined."""
    cosine: float
    """Between the server's best linear guess and the round-invariant component of a client's update."""
    single_round_cosine: float
    """1/√s: what a single round without noise gives, and fixed shards never exceed."""

    @property
    def effective_crowd(self) -> float:
        """1/cosine²: the size of the crowd in whose mean, without noise, an update is as hard to recover."""
        return 1 / self.cosine**2 if self.cosine else math.inf

    @property
    def leaks(self) -> bool:
        """Whether a client is exposed within the planned rounds, or all are hidden no better than in a crowd of two."""
        return self.exposed > 0 or self.effective_crowd < _MIN_CROWD

    def record(self) -> LeakForecast:
        """Return the forecast as the header of a run stores it."""
        return LeakForecast(
            exposed=self.exposed,
            first=self.first,
            last=self.last,
            crowd=self.crowd,
            cosine=round(self.cosine, 4),
            leaks=self.leaks,
        )


def forecast_leak(
    *,
    clients: int,
    shards: int,
    schedule: Schedule,
    rounds: int,
    client_dropout: float = 0.0,
    mode: MaskedMode = AllOrNothing.mode,
    clients_per_round: int | None = None,
    noise: float = 0.3,
    seed: int = 0,
) -> ScheduleLeak:
    """Predict what a server could infer over the planned rounds, with shards assigned at random.

    `client_dropout` is each client's chance to drop out of a round: all-or-nothing then keeps its shard closed, and the
    dropout-tolerant mode opens the sum of the others, which is one more equation. `noise` is the size of the part of an
    update that changes with each round, relative to the part that stays; with few labels per client little changes.
    `clients_per_round` of the clients are drawn for each round, if not all take part. The assignments are examples
    drawn from `seed`.
    """
    taking_part = clients if clients_per_round is None else clients_per_round
    if rounds < 1 or not 1 <= shards <= taking_part <= clients:
        raise ConfigError(
            f"{taking_part} of {clients} clients in {shards} shards over {rounds} rounds; use 1 round or more, and "
            f"1 to {taking_part} shards"
        )
    if not 0 <= client_dropout < 1:
        raise ConfigError(f"a dropout rate of {client_dropout}; it must be at least 0 and below 1")
    sums = opened_sums(
        clients=clients,
        shards=shards,
        schedule=schedule,
        rounds=rounds,
        client_dropout=client_dropout,
        mode=mode,
        clients_per_round=clients_per_round,
        seed=seed,
    )
    found = exposure(clients, sums)
    few = _scaled_down(clients, shards, schedule, taking_part)
    sample = opened_sums(
        clients=few[0],
        shards=few[1],
        clients_per_round=None if clients_per_round is None else few[2],
        schedule=schedule,
        rounds=rounds,
        client_dropout=client_dropout,
        mode=mode,
        seed=seed,
    )
    return ScheduleLeak(
        clients=clients,
        shards=shards,
        schedule=schedule,
        rounds=rounds,
        client_dropout=client_dropout,
        mode=mode,
        clients_per_round=clients_per_round,
        exposed=found.exposed,
        first=found.first,
        last=found.last,
        crowd=found.crowd,
        cosine=float(recovered_cosine(few[0], sample, noise=noise).mean()),
        single_round_cosine=math.sqrt(shards / taking_part),
    )


def smallest_k(*, clients: int, shards: int, rounds: int, crowd: float = _MIN_CROWD) -> int:
    """Return the smallest k for which resharding every k rounds hides everyone as well as a crowd of `crowd` clients.

    That no client is determined exactly is not enough: after q assignments to shards of s, the server knows q of about
    s dimensions, and recovers the round-invariant component with cosine √(q/s) if little changes between rounds.
    """
    assignments = max(1, int(clients / shards / crowd + 1e-9))
    return -(-rounds // assignments)


def safe_k(
    *, clients: int, shards: int, rounds: int, client_dropout: float = 0.0, mode: MaskedMode = AllOrNothing.mode
) -> int:
    """Return a k for which the forecast finds no leak in these rounds; the meaning of `k = "auto"`.

    It is `smallest_k` unless the forecast finds a leak with that; with few shards a smaller one may do as well.
    Raise `ConfigError` where even a single assignment leaks, as with dropouts in the dropout-tolerant mode.
    """
    assignments = -(-rounds // smallest_k(clients=clients, shards=shards, rounds=rounds))
    for fewer in range(assignments, 0, -1):
        k = -(-rounds // fewer)
        found = forecast_leak(
            clients=clients,
            shards=shards,
            rounds=rounds,
            client_dropout=client_dropout,
            mode=mode,
            schedule=EveryKRounds(k),
        )
        if not found.leaks:
            return k
    reason = text.leak(found.record(), rounds=rounds, clients=clients)
    raise ConfigError(f"no k is safe: even fixed shards leak. {reason} Use all-or-nothing, or larger shards")


def opened_sums(
    *,
    clients: int,
    shards: int,
    schedule: Schedule,
    rounds: int,
    client_dropout: float = 0.0,
    mode: MaskedMode = AllOrNothing.mode,
    clients_per_round: int | None = None,
    seed: int = 0,
) -> Iterator[Sums]:
    """Yield the sums that the server sees in each round of one random example."""
    public = hashlib.sha256(f"f2ed leak {seed}".encode()).digest()
    roster = dict.fromkeys(range(clients), b"")
    sampling = None
    if clients_per_round not in (None, clients):
        sampling = Sampling(roster, per_round=clients_per_round, shards=shards, schedule=schedule, seed=public)
    epoch_of = schedule if sampling is None else sampling.epoch
    assignment = None
    for number in range(rounds):
        if assignment is None or epoch_of(number) != assignment.epoch:
            assignment = (
                schedule.assign(roster, shards=shards, epoch=schedule(number), seed=public)
                if sampling is None
                else sampling(number)
            )
        members = assignment.shards
        if not client_dropout:
            yield members
            continue
        dropped = np.random.default_rng((seed, number)).random(clients) < client_dropout
        present = (tuple(client for client in shard if not dropped[client]) for shard in members)
        yield tuple(some for some, shard in zip(present, members, strict=True) if _opens(len(some), len(shard), mode))


def recovered_cosine(
    clients: int, rounds: Iterable[Sums], *, noise: float = 1.0, least_squares: bool = False
) -> NDArray[np.float64]:
    """Return for each client the cosine between the round-invariant component of its update and the server's guess.

    Updates are modeled as long orthogonal vectors, each with fresh noise of relative size `noise` in every round. The
    server solves by ridge regression with the best ridge, or by minimum-norm least squares, which is worse where
    equations barely determine the unknowns. With S the sum over opened sets of u·uᵀ (u the unit vector along the set)
    and H the matrix that maps the invariant components to the guesses::

        ridge          H = S·(S + noise²)⁻¹, cosine √H_ii
        least squares  H = S⁺S,              cosine H_ii / √(H_ii + noise²·S⁺_ii)
    """
    total = np.zeros((clients, clients))
    for sums in rounds:
        for some in sums:
            members = np.fromiter(some, np.int64)
            total[np.ix_(members, members)] += 1 / len(members)
    values, vectors = np.linalg.eigh(total)
    nonzero = values > 1e-9 * max(1.0, values[-1])
    squares = np.square(vectors[:, nonzero])
    values = values[nonzero]
    if not least_squares:
        best: NDArray[np.float64] = np.sqrt(squares @ (values / (values + noise**2)))
        return best
    kept = squares.sum(axis=1)
    length = np.sqrt(kept + noise**2 * (squares @ (1 / values)))
    found: NDArray[np.float64] = np.divide(kept, length, out=np.zeros(clients), where=length > 0)
    return found


def _opens(present: int, members: int, mode: MaskedMode) -> bool:
    """Return whether a shard's sum opens with this many of its members."""
    return present >= min(members, scheme_of(mode).quorum(members).min_crowd)


def _scaled_down(clients: int, shards: int, schedule: Schedule, taking_part: int) -> tuple[int, int, int]:
    """Return clients, shards and clients per round of a smaller federation with shards of the same size.

    Where everyone takes part it has some tens of shards; a sample may be a single one.
    """
    size = taking_part / shards
    whole = max(round(_CLIENTS_FOR_COSINE / size), 20)
    fewer = whole if taking_part == clients else max(1, round(_CLIENTS_FOR_COSINE * shards / clients))
    if clients <= _CLIENTS_FOR_COSINE or fewer >= shards:
        return clients, shards, taking_part
    smaller = round(fewer * size)
    if isinstance(schedule, Batches):
        smaller = max(schedule.size, smaller - smaller % schedule.size)
    return (smaller if taking_part == clients else round(smaller * clients / taking_part)), fewer, smaller
