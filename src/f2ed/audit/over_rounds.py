"""A federation over many rounds, and what the shard means of each schedule reveal about single clients."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from f2ed.audit.disaggregation import Disaggregator, cosines, relative_errors
from f2ed.audit.findings import Finding, Interval, RankHistory, interval_of_mean
from f2ed.core.randomness import stream
from f2ed.guarantees.leakage.exposure import LeakMeter, Sums
from f2ed.guarantees.leakage.forecast import opened_sums, recovered_cosine, smallest_k
from f2ed.learning import Cohort, Data, Training, TrainingJob, flatten, split_samples
from f2ed.learning.models import Mlp
from f2ed.learning.partition import Pathological
from f2ed.protocol.secagg import MaskedMode
from f2ed.protocol.secagg.schemes import AllOrNothing, DropoutTolerant
from f2ed.protocol.sharding import Batches, EveryKRounds, EveryRound, Fixed, Schedule

__all__ = ["follow_rounds", "schedules"]

_LABELS = 3
_MAX_IMAGES = 60
_TRAINING = Training(lr=0.05, batch_size=10)


@dataclass(eq=False)
class _Arm:
    """One schedule with its dropouts: the sums it opens in each round, and the server that observes them."""

    name: str
    rounds: list[Sums]
    server: Disaggregator
    meter: LeakMeter
    ranks: list[int] = field(default_factory=list)
    exposed: list[int] = field(default_factory=list)

    def observe(self, sums: Sums, updates: Tensor) -> None:
        self.server.observe(sums, [updates[list(some)].mean(dim=0).numpy() for some in sums])
        self.meter.observe(sums)
        self.ranks.append(self.meter.rank)
        self.exposed.append(self.meter.exposed)


def follow_rounds(
    data: Data, *, clients: int, shard: int, rounds: int, schedule: Schedule, client_dropout: float, seed: int
) -> Iterator[Finding | RankHistory]:
    """Train clients with three labels each, and yield what the server has found after some of the rounds.

    All schedules see the same training, since the mean over all clients does not depend on the shards. The target is
    each client's round-invariant component: its update minus the mean of all, averaged over the rounds.
    """
    shards = clients // shard
    module = Mlp((32,))(data.shape, data.classes, seed)
    cohort, model = Cohort(module), flatten(module)
    partition = Pathological(min(_LABELS, data.classes))(data.train.labels.numpy(), clients, seed)
    everyone = split_samples(data.train, partition)
    everyone = [type(each)(each.pool, each.rows[:_MAX_IMAGES], each.labels[:_MAX_IMAGES]) for each in everyone]
    arms = _arms(clients, shards, rounds, schedule, client_dropout, seed, len(model))
    held = np.array([np.isin(np.arange(data.classes), each.labels.numpy()) for each in everyone])
    total = np.zeros((clients, len(model)))
    squares = np.zeros(clients)
    for number in range(rounds):
        jobs = [TrainingJob(client, own, _TRAINING) for client, own in enumerate(everyone)]
        updates = cohort(model, jobs, seed=seed, round_=number)
        own = (updates - updates.mean(dim=0)).double().numpy()
        total += own
        squares += np.square(own).sum(axis=1)
        for arm in arms:
            arm.observe(arm.rounds[number], updates)
        model = model + updates.mean(dim=0)
        done = number + 1
        if done in _stops(rounds):
            component = total / done
            changes = float(np.mean(np.maximum(squares / done / np.square(component).sum(axis=1) - 1, 0.0)))
            for arm in arms:
                yield from _findings(arm, component, held, shard, done, changes, seed)
    for arm in arms:
        yield RankHistory(setting=arm.name, clients=clients, ranks=tuple(arm.ranks), exposed=tuple(arm.exposed))


def schedules(
    clients: int, shards: int, rounds: int, schedule: Schedule, client_dropout: float
) -> dict[str, tuple[Schedule, float, MaskedMode]]:
    """Return what is compared, by name: schedule, dropout rate and secure-aggregation mode."""
    k = smallest_k(clients=clients, shards=shards, rounds=rounds)
    kinds: dict[str, tuple[Schedule, float, MaskedMode]] = {
        "every-round": (EveryRound(), 0.0, AllOrNothing.mode),
        f"every-k-rounds, k = {k}": (EveryKRounds(k), 0.0, AllOrNothing.mode),
        "fixed": (Fixed(), 0.0, AllOrNothing.mode),
        "batches of 2": (Batches(2), 0.0, AllOrNothing.mode),
    }
    if isinstance(schedule, EveryKRounds) and schedule.k != k:
        kinds[f"every-k-rounds, k = {schedule.k}"] = (schedule, 0.0, AllOrNothing.mode)
    if isinstance(schedule, Batches) and schedule != Batches(2):
        kinds[f"batches of {schedule.size}, k = {schedule.k}"] = (schedule, 0.0, AllOrNothing.mode)
    if client_dropout:
        silent = f"{100 * client_dropout:g} % drop out"
        kinds[f"every-round, {silent}"] = (EveryRound(), client_dropout, AllOrNothing.mode)
        kinds[f"fixed, {silent}, {AllOrNothing.mode}"] = (Fixed(), client_dropout, AllOrNothing.mode)
        kinds[f"fixed, {silent}, {DropoutTolerant.mode}"] = (Fixed(), client_dropout, DropoutTolerant.mode)
    return kinds


def _arms(
    clients: int, shards: int, rounds: int, schedule: Schedule, client_dropout: float, seed: int, coordinates: int
) -> list[_Arm]:
    setting = {"clients": clients, "shards": shards, "rounds": rounds, "seed": seed}
    return [
        _Arm(
            name,
            list(opened_sums(**setting, schedule=schedule, client_dropout=dropout, mode=mode)),
            Disaggregator(clients, coordinates),
            LeakMeter(clients),
        )
        for name, (schedule, dropout, mode) in schedules(clients, shards, rounds, schedule, client_dropout).items()
    ]


def _findings(
    arm: _Arm,
    component: NDArray[np.float64],
    held: NDArray[np.bool_],
    shard: int,
    done: int,
    changes: float,
    seed: int,
) -> Iterator[Finding]:
    rng = stream(seed, "intervals", arm.name, done)
    # The server does not know how much changes between rounds, but may guess it well; a floor adds stability.
    found = arm.server.solve(max(changes, 1e-3))
    predicted = recovered_cosine(len(component), arm.rounds[:done], noise=np.sqrt(max(changes, 1e-3)))
    measures = {
        "cosine": (cosines(component, found), 0.0, 1.0),
        "cosine predicted by the meter": (predicted, 0.0, 1.0),
        "relative error": (relative_errors(component, found), 1.0, 0.0),
        "share of labels found": (
            _labels_found(found, held),
            float(held.mean()),
            _labels_found(component, held).mean(),
        ),
        "share determined exactly": (np.array([after is not None for after in arm.meter.exposed_after]), 0.0, 1.0),
    }
    for metric, (values, guess, plain) in measures.items():
        yield Finding(
            attack="disaggregation",
            metric=metric,
            shard=shard,
            setting=arm.name,
            rounds=done,
            found=interval_of_mean(values, rng),
            guess=guess,
            plain=float(plain),
        )
    rank = float(arm.meter.rank)
    yield Finding(
        attack="disaggregation",
        metric="independent equations",
        shard=shard,
        setting=arm.name,
        rounds=done,
        found=Interval(rank, rank, rank, len(component)),
        guess=0.0,
        plain=float(len(component)),
    )


def _labels_found(found: NDArray[np.float64], held: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Return the share of each client's labels among those whose bias grew most; the vector ends with the last bias."""
    bias = found[:, -held.shape[1] :]
    ranks = np.argsort(np.argsort(-bias, axis=1), axis=1)
    named = ranks < held.sum(axis=1, keepdims=True)
    share: NDArray[np.float64] = (named & held).sum(axis=1) / held.sum(axis=1)
    return share


def _stops(rounds: int) -> set[int]:
    return {stop for stop in (1, 3, 10, 30, 100) if stop < rounds} | {rounds}
