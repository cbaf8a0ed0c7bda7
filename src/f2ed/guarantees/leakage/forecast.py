"""The leak meter: what a server could work out about single clients from the shard sums of many rounds.

Every opened sum is a linear equation in the clients' updates. To the extent that a client sends the same thing again
(its data stay the same, so the pull on the model does), the server can solve the equations of many rounds. Two numbers
say how far that goes. `exposed` counts the clients whose own update the equations determine: exact, by elimination.
`cosine` is how well the part of an update that stays can be told when it comes with fresh noise each round: it is
what the best linear guess reaches, 1 for full recovery. Fixed shards keep it at 1/√s or below for ever.
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
from f2ed.protocol.sharding.schedule import Batches, EveryKRounds, Schedule

__all__ = ["Leak", "leak", "opened_sums", "recovered_cosine", "safe_k", "smallest_k"]

# The cosine depends on the size of a shard and the number of rounds, and hardly on n beyond a few hundred clients.
_CLIENTS_FOR_COSINE = 400
_FEWEST = 2.0


@final
class Leak(msgspec.Struct, frozen=True, kw_only=True):
    """What a schedule gives away within the planned rounds."""

    clients: int
    shards: int
    schedule: Schedule
    rounds: int
    client_dropout: float
    mode: MaskedMode
    exposed: int
    """Clients whose own update the sums determine, as far as it is the same in all rounds."""
    first: int | None
    """After how many rounds the first of them is."""
    last: int | None
    """After how many rounds everyone is; None if not everyone is."""
    crowd: int
    """The smallest group whose sum is determined."""
    cosine: float
    """Between what the server finds and what stays of a client's update, where some noise comes with it."""
    hidden_cosine: float
    """1/√s: what a single round without noise gives, and fixed shards never exceed."""

    @property
    def hidden_as_among(self) -> float:
        """1/cosine²: the size of the crowd in whose mean, without noise, an update is as hard to tell."""
        return 1 / self.cosine**2 if self.cosine else math.inf

    @property
    def leaks(self) -> bool:
        """Whether someone is exposed within the planned rounds, or everyone nearly: no better hidden than among two."""
        return self.exposed > 0 or self.hidden_as_among < _FEWEST

    @property
    def text(self) -> str:
        """The finding in one sentence or two."""
        recovered = (
            f"what stays of an update is recovered with cosine {self.cosine:.2f}, "
            f"as if it were hidden among {self.hidden_as_among:.1f}"
        )
        if not self.exposed:
            return (
                f"Over {self.rounds} rounds the sums determine no single client, "
                f"and no group smaller than {self.crowd}; {recovered}."
            )
        when = f"the first after {self.first} rounds"
        if self.last is not None:
            when = f"after {self.last} rounds" if self.last == self.first else f"{when}, the last after {self.last}"
        who = "all" if self.exposed == self.clients else f"{self.exposed} of"
        solved = f"the sums determine {who} {self.clients} clients one by one, {when}"
        return f"Over {self.rounds} rounds {solved}; {recovered}."


def leak(
    *,
    clients: int,
    shards: int,
    schedule: Schedule,
    rounds: int,
    client_dropout: float = 0.0,
    mode: MaskedMode = AllOrNothing.mode,
    noise: float = 0.3,
    seed: int = 0,
) -> Leak:
    """Predict what a server could work out over the rounds of a plan that is dealt at random.

    `dropout` is each client's chance to be silent in a round: all-or-nothing leaves its shard closed, and the
    tolerant mode opens the sum of the others, which is one more equation. `noise` is the size of what is new in a
    client's update each round, relative to what stays; clients with labels of their own change little. The deals are
    examples drawn from `seed`.
    """
    if rounds < 1 or not 1 <= shards <= clients:
        raise ConfigError(f"{clients} clients in {shards} shards over {rounds} rounds; nothing can be measured")
    if not 0 <= client_dropout < 1:
        raise ConfigError(f"a drop-out rate of {client_dropout}; it must be at least 0 and below 1")
    sums = opened_sums(
        clients=clients,
        shards=shards,
        schedule=schedule,
        rounds=rounds,
        client_dropout=client_dropout,
        mode=mode,
        seed=seed,
    )
    found = exposure(clients, sums)
    few = _scaled_down(clients, shards, schedule)
    sample = opened_sums(
        clients=few[0],
        shards=few[1],
        schedule=schedule,
        rounds=rounds,
        client_dropout=client_dropout,
        mode=mode,
        seed=seed,
    )
    return Leak(
        clients=clients,
        shards=shards,
        schedule=schedule,
        rounds=rounds,
        client_dropout=client_dropout,
        mode=mode,
        exposed=found.exposed,
        first=found.first,
        last=found.last,
        crowd=found.crowd,
        cosine=float(recovered_cosine(few[0], sample, noise=noise).mean()),
        hidden_cosine=math.sqrt(shards / clients),
    )


def smallest_k(*, clients: int, shards: int, rounds: int, crowd: float = _FEWEST) -> int:
    """Return the smallest k for which a deal every k rounds leaves everyone as well hidden as among `crowd` clients.

    That nobody is determined exactly would not do: with q deals to shards of s, the server knows q of about s
    dimensions, and recovers what stays with cosine √(q/s) if little changes from round to round.
    """
    deals = max(1, int(clients / shards / crowd + 1e-9))
    return -(-rounds // deals)


def safe_k(
    *, clients: int, shards: int, rounds: int, client_dropout: float = 0.0, mode: MaskedMode = AllOrNothing.mode
) -> int:
    """Return a k with which the meter finds no leak in these rounds; what `k = "auto"` stands for.

    It is `smallest_k` unless the meter finds a leak with that; where shards are few a smaller one may do as well.
    Raise `ConfigError` where even a single deal leaks, as with drop-outs in the tolerant mode.
    """
    deals = -(-rounds // smallest_k(clients=clients, shards=shards, rounds=rounds))
    for fewer in range(deals, 0, -1):
        k = -(-rounds // fewer)
        found = leak(
            clients=clients,
            shards=shards,
            rounds=rounds,
            client_dropout=client_dropout,
            mode=mode,
            schedule=EveryKRounds(k),
        )
        if not found.leaks:
            return k
    raise ConfigError(f"no number of rounds between deals is safe. {found.text} Use all-or-nothing, or larger shards")


def opened_sums(
    *,
    clients: int,
    shards: int,
    schedule: Schedule,
    rounds: int,
    client_dropout: float = 0.0,
    mode: MaskedMode = AllOrNothing.mode,
    seed: int = 0,
) -> Iterator[Sums]:
    """Yield the sums that the server sees in each round of an example."""
    public = hashlib.sha256(f"f2ed leak {seed}".encode()).digest()
    roster = dict.fromkeys(range(clients), b"")
    at, plan = -1, None
    for number in range(rounds):
        if plan is None or schedule(number) != at:
            at = schedule(number)
            plan = schedule.assign(roster, shards=shards, epoch=at, seed=public)
        if not client_dropout:
            yield plan.shards
            continue
        silent = np.random.default_rng((seed, number)).random(clients) < client_dropout
        there = (tuple(client for client in shard if not silent[client]) for shard in plan.shards)
        yield tuple(some for some, shard in zip(there, plan.shards, strict=True) if _opens(len(some), len(shard), mode))


def recovered_cosine(
    clients: int, rounds: Iterable[Sums], *, noise: float = 1.0, least_squares: bool = False
) -> NDArray[np.float64]:
    """Return for each client the cosine between what stays of its update and what the server finds of it.

    Updates are taken as long vectors with nothing in common, each with fresh noise of relative size `noise` in every
    round. The server finds them by ridge regression with the best ridge, or by least squares of smallest norm,
    which is worse where equations barely determine the unknowns. With S the sum over opened sets of u·uᵀ (u the unit
    vector along the set) and H the matrix that takes what stays to what is found::

        ridge          H = S·(S + noise²)⁻¹, cosine √H_ii
        least squares  H = S⁺S,              cosine H_ii / √(H_ii + noise²·S⁺_ii)
    """
    total = np.zeros((clients, clients))
    for sums in rounds:
        for some in sums:
            members = np.fromiter(some, np.int64)
            total[np.ix_(members, members)] += 1 / len(members)
    values, vectors = np.linalg.eigh(total)
    there = values > 1e-9 * max(1.0, values[-1])
    squares = np.square(vectors[:, there])
    values = values[there]
    if not least_squares:
        best: NDArray[np.float64] = np.sqrt(squares @ (values / (values + noise**2)))
        return best
    kept = squares.sum(axis=1)
    length = np.sqrt(kept + noise**2 * (squares @ (1 / values)))
    found: NDArray[np.float64] = np.divide(kept, length, out=np.zeros(clients), where=length > 0)
    return found


def _opens(there: int, members: int, mode: MaskedMode) -> bool:
    """Return whether a shard's sum opens with this many of its members."""
    return there >= min(members, scheme_of(mode).quorum(members).min_crowd)


def _scaled_down(clients: int, shards: int, schedule: Schedule) -> tuple[int, int]:
    """Return a smaller federation with shards of the same size, if it would have some tens of them."""
    size = clients / shards
    fewer = max(round(_CLIENTS_FOR_COSINE / size), 20)
    if clients <= _CLIENTS_FOR_COSINE or fewer >= shards:
        return clients, shards
    smaller = round(fewer * size)
    if isinstance(schedule, Batches):
        smaller -= smaller % schedule.size
    return smaller, fewer
