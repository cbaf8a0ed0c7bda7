"""Refuse settings that cannot work before anything starts; every message begins with the setting to change."""

import copy
from collections.abc import Callable
from typing import TypeVar

import torch
from torch import nn

from f2ed.attacks import EvaluationData, Examples, Palette
from f2ed.core.errors import ConfigError
from f2ed.core.randomness import stream
from f2ed.guarantees import guarantee
from f2ed.learning import Data, Partition, flatten
from f2ed.learning.datasets.tables import found_file
from f2ed.learning.saved import saved_vector
from f2ed.protocol.aggregation import Task, shard_terms
from f2ed.protocol.dp import NoiseCost, noise_cost
from f2ed.protocol.quantization.encoding import Encoding
from f2ed.protocol.secagg import check as check_terms
from f2ed.simulation.config import Experiment

__all__ = ["check", "check_data", "encoding", "run_noise_cost"]

Result = TypeVar("Result")

_MIN_CROWD = 3


def encoding(experiment: Experiment) -> Encoding:
    """Return how updates are encoded as integers."""
    if experiment.clip_norm is None:
        return Encoding(experiment.clip_value, bits=experiment.bits)
    return Encoding(experiment.clip_value, experiment.clip_norm, experiment.bits)


def check(experiment: Experiment) -> None:
    """Check the numbers alone: they must describe a federation that the protocol supports."""
    clients, malicious = experiment.clients, experiment.malicious
    if malicious >= clients:
        raise ConfigError(f"malicious: found {malicious} of {clients} clients; state a number from 0 to {clients - 1}")
    if experiment.attack is not None and not malicious:
        raise ConfigError('attack: there are no malicious clients; state malicious = 1 or more, or attack = "none"')
    if experiment.attack is not None and experiment.attack_from >= experiment.rounds:
        raise ConfigError(
            f"attack_from: the attack would begin in round {experiment.attack_from}, but the last round is "
            f"{experiment.rounds - 1}; state an earlier round, or more rounds"
        )
    if experiment.rows > clients:
        raise ConfigError(
            f"shards: found {experiment.rows} shards for {clients} clients; use at most {clients // _MIN_CROWD}"
        )
    if experiment.dp is not None and not experiment.sharded:
        raise ConfigError("dp: noise is shared by the members of a shard, but there are no shards; state shards")
    if experiment.dp is not None and experiment.clip_norm is None:
        raise ConfigError("dp: noise without an L2 clip; state clip_norm, about the norm of an honest update")
    if not experiment.sharded:
        return
    crowd = _about("schedule", lambda: experiment.crowd)
    if experiment.secure and crowd < _MIN_CROWD:
        raise ConfigError(
            f"shards: {experiment.rows} shards of {clients} clients leave some with {crowd}, but an update must be "
            f"hidden in a crowd of at least {_MIN_CROWD}; use at most {clients // _MIN_CROWD} shards, "
            f'or secure = false, or shards = "none"'
        )
    _check_protocol(experiment)
    guarantee(clients=clients, malicious=malicious, shards=experiment.rows)


def _check_protocol(experiment: Experiment) -> None:
    roster = dict.fromkeys(range(experiment.clients), b"")
    assignment = experiment.schedule.assign(roster, shards=experiment.rows, epoch=0, seed=b"")
    try:
        task = Task(
            job="check",
            round=0,
            model=b"",
            coordinates=1,
            encoding=encoding(experiment),
            roster=roster,
            protocol=experiment.protocol,
            secure=experiment.secure,
        )
        for terms in shard_terms(assignment, task):
            check_terms(terms)
    except ConfigError as error:
        raise ConfigError(f"protocol: {error}") from None


def run_noise_cost(experiment: Experiment, coordinates: int) -> NoiseCost:
    """Return what the noise of a run costs, in its smallest shard; refuse a run without noise."""
    if experiment.dp is None:
        raise ConfigError("there is no noise in this run; state dp")
    return noise_cost(
        experiment.dp,
        encoding(experiment),
        coordinates=coordinates,
        members=experiment.crowd,
        shards=experiment.rows,
        rounds=experiment.rounds,
        carriers=experiment.protocol.carriers_for(experiment.crowd),
        colluders=experiment.protocol.colluders,
        clear=not experiment.secure,
    )


def check_data(experiment: Experiment, data: Data) -> Partition:
    """Check what depends on the data: the partition, the model's shape and the attack's goal."""
    partition = _about(
        "partition",
        lambda: experiment.partition(
            data.train.labels.cpu().numpy(), experiment.clients, experiment.seed, owners=data.owners
        ),
    )
    module = _about("model", lambda: experiment.model(data.shape, data.classes, experiment.seed))
    _about("model", lambda: _try(module, data))
    if (start := experiment.start) is not None:
        _about("start", lambda: saved_vector(found_file(start, None), module))
    if experiment.dp is not None:
        _about("dp", lambda: run_noise_cost(experiment, len(flatten(module))))
    if (attack := experiment.attack) is not None:
        few = Examples(data.test.images[:100], data.test.labels[:100])
        evaluation = EvaluationData(few, data.classes, Palette(data.black, data.white), stream(0, "check"))
        _about("attack", lambda: attack.goal(evaluation))
    return partition


def _try(module: nn.Module, data: Data) -> None:
    """Feed the model two samples; refuse a shape that it does not take, or outputs that are not one per class."""
    try:
        with torch.no_grad():
            scores = copy.deepcopy(module).eval()(data.train.images[:2].cpu())
    except Exception as error:
        raise ConfigError(
            f"it does not take samples of shape {data.shape}: {str(error).splitlines()[0] if str(error) else error!r}"
        ) from error
    wanted = (min(2, len(data.train)), data.classes)
    if not isinstance(scores, torch.Tensor) or tuple(scores.shape) != wanted:
        found = tuple(scores.shape) if isinstance(scores, torch.Tensor) else type(scores).__name__
        raise ConfigError(f"two samples gave {found}; {wanted} is needed, one score per class")


def _about(setting: str, compute: Callable[[], Result]) -> Result:
    try:
        return compute()
    except ConfigError as error:
        raise ConfigError(f"{setting}: {error}") from None
