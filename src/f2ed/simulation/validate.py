"""Refuse settings that cannot work before anything starts; every message begins with the setting to change."""

import copy
from collections.abc import Callable
from typing import TypeVar

import msgspec
import numpy as np
import torch
from torch import nn

from f2ed.attacks import Attack, EvaluationData, Examples, Palette
from f2ed.core.errors import ConfigError, first_line
from f2ed.core.randomness import stream
from f2ed.guarantees import guarantee
from f2ed.learning import Data, Partition, flatten
from f2ed.learning.datasets.tables import found_file
from f2ed.learning.losses import CrossEntropy, metric_of
from f2ed.learning.saved import saved_vector
from f2ed.protocol.aggregation import Task, shard_terms
from f2ed.protocol.dp import NoiseCost, noise_cost
from f2ed.protocol.helpers import ROLES, HelpersProtocol, Party, helper_terms, rule_bytes
from f2ed.protocol.helpers import check_terms as check_helper_terms
from f2ed.protocol.quantization.encoding import Encoding
from f2ed.protocol.secagg import Terms
from f2ed.protocol.secagg import check as check_terms
from f2ed.protocol.sharding import Fixed
from f2ed.simulation.assignments import Assignments
from f2ed.simulation.client_weights import ClientWeights, client_weights
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
    clients, malicious, sampled = experiment.clients, experiment.malicious, experiment.sampled
    if malicious >= clients:
        raise ConfigError(f"malicious: found {malicious} of {clients} clients; state a number from 0 to {clients - 1}")
    if experiment.attack is not None and not malicious:
        raise ConfigError('attack: there are no malicious clients; state malicious = 1 or more, or attack = "none"')
    if experiment.attack is not None and experiment.attack_from >= experiment.rounds:
        raise ConfigError(
            f"attack_from: the attack would begin in round {experiment.attack_from}, but the last round is "
            f"{experiment.rounds - 1}; state an earlier round, or more rounds"
        )
    _check_root(experiment)
    if experiment.helpers is not None:
        _check_helpers(experiment, experiment.helpers)
    elif experiment.unclipped:
        raise ConfigError("unclipped: only helpers test the range of updates; leave it out")
    if experiment.placement is not None and not experiment.sharded:
        raise ConfigError(
            f"placement: found {experiment.placement!r}, but there are no shards; leave it out, or state shards"
        )
    if experiment.placement is not None and sampled < clients:
        raise ConfigError(
            f"placement: found {experiment.placement!r}, but each round has other shards; leave it out, or leave out "
            "clients_per_round"
        )
    if sampled > clients:
        raise ConfigError(f"clients_per_round: found {sampled} of {clients} clients; state 1 to {clients}, or a share")
    if experiment.rows > sampled:
        raise ConfigError(
            f"shards: found {experiment.rows} shards for {sampled} clients; use at most {sampled // _MIN_CROWD}"
        )
    if experiment.max_weight is not None and experiment.client_weights is None:
        raise ConfigError('max_weight: all clients count the same; leave it out, or state client_weights = "samples"')
    if experiment.dp is not None and experiment.client_weights is not None:
        raise ConfigError(
            'dp: what noise costs is not known for clients of different weights; use client_weights = "equal"'
        )
    if experiment.dp is not None and not experiment.sharded:
        raise ConfigError("dp: noise is shared by the members of a shard, but there are no shards; state shards")
    if experiment.dp is not None and experiment.clip_norm is None:
        raise ConfigError("dp: noise without an L2 clip; state clip_norm, about the norm of an honest update")
    if experiment.buffers is not None and experiment.buffers.policy == "local" and experiment.client_momentum:
        raise ConfigError("client_momentum: it would average the buffers that stay with the clients; leave one out")
    if not experiment.sharded:
        return
    crowd = _about("schedule", lambda: experiment.crowd)
    if experiment.secure and crowd < _MIN_CROWD:
        raise ConfigError(
            f"shards: {experiment.rows} shards of {sampled} clients leave some with {crowd}, but an update must be "
            f"hidden in a crowd of at least {_MIN_CROWD}; use at most {sampled // _MIN_CROWD} shards, "
            f'or secure = false, or shards = "none"'
        )
    if (wanted := experiment.protocol.min_crowd or 0) > crowd:
        raise ConfigError(f"protocol.min_crowd: found {wanted}, and the smallest shard has {crowd}; use fewer shards")
    _check_protocol(experiment)
    guarantee(clients=sampled, malicious=experiment.assumed_malicious, shards=experiment.rows)


def _check_helpers(experiment: Experiment, helpers: HelpersProtocol) -> None:
    """Refuse what helpers do not offer, and terms that are not safe."""
    if experiment.shards != "none":
        raise ConfigError(
            f"shards: found {experiment.shards}, but with helpers every client is a row of its own; leave it out"
        )
    if experiment.clip_norm is None:
        raise ConfigError("clip_norm: the range tests of helpers need it; state about the norm of an honest update")
    if experiment.sampled < experiment.clients:
        raise ConfigError("clients_per_round: with helpers everyone is asked in every round; leave it out")
    if experiment.client_weights is not None:
        raise ConfigError('client_weights: with helpers a client is in the sum or not; use client_weights = "equal"')
    if experiment.dp is not None:
        raise ConfigError("dp: a filter over single clients has no bounded sensitivity, so noise has no epsilon here")
    _about("estimator", lambda: rule_bytes(experiment.estimator))
    _about(
        "protocol",
        lambda: check_helper_terms(
            helper_terms(
                helpers,
                policy=bytes(32),
                job="check",
                round_=0,
                members=range(experiment.clients),
                coordinates=1,
                clip_norm=experiment.clip_norm or 1.0,
                rule=experiment.estimator,
                parties={role: Party(role, bytes([place]) * 32) for place, role in enumerate(ROLES)},
            )
        ),
    )


def _check_root(experiment: Experiment) -> None:
    if experiment.root is None and experiment.estimator.needs_root():
        raise ConfigError(
            f"root: {experiment.estimator.title} needs a trusted update, and the server has no data; state the number "
            "of samples that it holds, such as root = 100"
        )


def _check_protocol(experiment: Experiment) -> None:
    try:
        for terms in _protocol_terms(experiment, None):
            check_terms(terms)
    except ConfigError as error:
        raise ConfigError(f"protocol: {error}") from None


def _protocol_terms(experiment: Experiment, weights: ClientWeights | None) -> tuple[Terms, ...]:
    """Return the terms of the first round's shards."""
    assignment = Assignments(experiment)(0)
    task = Task(
        job="check",
        round=0,
        model=b"",
        coordinates=1,
        encoding=encoding(experiment),
        roster=dict.fromkeys((client for members in assignment.shards for client in members), b""),
        protocol=experiment.protocol,
        weights=None if weights is None else weights.by_client,
        weight_cap=1 if weights is None else weights.cap,
        secure=experiment.secure,
    )
    return shard_terms(assignment, task)


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
    outputs = _about("loss", lambda: experiment.task.outputs(data))
    partition = _about("partition", lambda: _partition(experiment, data))
    _about("client_weights", lambda: _check_weights(experiment, partition))
    module = _about("model", lambda: experiment.model(data.shape, outputs, experiment.seed))
    scores = _about("model", lambda: _try(module, data))
    _try_loss(experiment, scores, data)
    if experiment.root is not None and experiment.root > len(data.train.labels):
        raise ConfigError(f"root: found {experiment.root} samples; the data has {len(data.train.labels)}")
    if (start := experiment.start) is not None:
        _about("start", lambda: saved_vector(found_file(start, None), module))
    if experiment.dp is not None:
        _about("dp", lambda: run_noise_cost(experiment, len(flatten(module))))
    if (attack := experiment.attack) is not None:
        _about("attack", lambda: _check_attack(experiment, data))
        few = Examples(data.test.images[:100], data.test.labels[:100])
        evaluation = EvaluationData(few, data.classes, Palette(data.black, data.white), stream(0, "check"))
        _about("attack", lambda: attack.goal(evaluation))
    return partition


def _partition(experiment: Experiment, data: Data) -> Partition:
    labels, labeled = data.train.labels.cpu().numpy(), experiment.task.labeled(data)
    if experiment.partition.by_label and not labeled:
        raise ConfigError('it assigns samples by their class, and these have none; use "iid", "natural" or "assigned"')
    # Without classes all samples are alike.
    labels = labels if labeled else np.zeros(len(labels), np.int64)
    return experiment.partition(labels, experiment.clients, experiment.seed, owners=data.owners)


def _check_weights(experiment: Experiment, partition: Partition) -> None:
    """Refuse weights under which a shard's mean may be mostly one member, in any round."""
    weights = client_weights(experiment, partition.sizes)
    if weights is None or not (experiment.sharded and experiment.secure):
        return
    first = _protocol_terms(experiment, weights)
    sampling = Assignments(experiment).sampling
    if sampling is not None and isinstance(experiment.schedule, Fixed):
        first = tuple(
            msgspec.structs.replace(first[0], members=members, weights=tuple(map(weights.by_client.get, members)))
            for members in sampling.units
            if len(members) == len(first[0].members)
        )
    elif experiment.schedule(experiment.rounds - 1) > 0:
        # The heaviest may once share a shard with the lightest.
        *others, heaviest = sorted(weights.by_client.values())
        smallest = min(first, key=lambda each: len(each.members))
        first = (msgspec.structs.replace(smallest, weights=(*others[: len(smallest.members) - 1], heaviest)),)
    for each in first:
        check_terms(each)


def _check_attack(experiment: Experiment, data: Data) -> None:
    """Refuse an attack that trains on altered labels, or aims at one, where there are none."""
    attack = experiment.attack
    if attack is None or experiment.task.labeled(data):
        return
    targeted = type(attack).goal is not Attack.goal
    if targeted or not attack.trains_honestly:
        raise ConfigError(
            f"{attack.__struct_config__.tag} needs a class for every sample, and the targets have none; use an "
            "untargeted attack on updates, such as trimmed-mean-attack or sign-flip"
        )


def _try_loss(experiment: Experiment, scores: torch.Tensor, data: Data) -> None:
    """Compute loss and metric of two samples; refuse outputs that do not fit the targets."""
    targets = data.train.labels[:2].cpu()
    if isinstance(experiment.task, CrossEntropy):
        wanted = (len(targets), data.classes)
        if tuple(scores.shape) != wanted:
            raise ConfigError(f"model: two samples gave {tuple(scores.shape)}; {wanted} is needed, one score per class")
    stopping = experiment.early_stopping
    if stopping is not None and stopping.metric == "accuracy" and experiment.task.accuracy(scores, targets) is None:
        raise ConfigError('early_stopping: this loss has no accuracy; state metric = "loss"')
    name = experiment.metric or experiment.task.metric
    metric = None if name is None else _about("metric", lambda: metric_of(name))
    _about("loss", lambda: _computed(experiment.task, scores.clone().requires_grad_(), targets))
    if metric is not None:
        _about("metric", lambda: _computed(metric, scores, targets))


def _computed(function: Callable[..., object], scores: torch.Tensor, targets: torch.Tensor) -> None:
    try:
        found = function(scores, targets)
        float(found.detach() if isinstance(found, torch.Tensor) else found)  # type: ignore[arg-type]  # any type may come
    except ConfigError:
        raise
    except Exception as error:
        shapes = f"outputs of shape {tuple(scores.shape)} and targets of shape {tuple(targets.shape)}"
        raise ConfigError(f"{shapes} do not fit: {first_line(error)}") from error


def _try(module: nn.Module, data: Data) -> torch.Tensor:
    """Feed the model two samples; refuse a shape that it does not take."""
    try:
        with torch.no_grad():
            scores = copy.deepcopy(module).eval()(data.train.images[:2].cpu())
    except Exception as error:
        raise ConfigError(f"it does not take samples of shape {data.shape}: {first_line(error)}") from error
    if not isinstance(scores, torch.Tensor):
        raise ConfigError(f"two samples gave a {type(scores).__name__}; a tensor is needed")
    return scores


def _about(setting: str, compute: Callable[[], Result]) -> Result:
    try:
        return compute()
    except ConfigError as error:
        raise ConfigError(f"{setting}: {error}") from None
