"""The first record of a run: what was run, and with what."""

import platform
from datetime import UTC, datetime

import msgspec
import numpy as np
import torch

import f2ed
from f2ed.guarantees import Guarantee, guarantee
from f2ed.learning import Partition
from f2ed.records import NoiseRecord, Plugin, RunHeader, settings_digest
from f2ed.simulation.config import Experiment
from f2ed.simulation.leak_meter import forecast
from f2ed.simulation.own import plain, sources
from f2ed.simulation.validate import run_noise_cost

__all__ = ["digest", "guarantee_with", "header"]


def digest(experiment: Experiment) -> str:
    """Return SHA-256 of the settings, in an order that does not depend on how they were written."""
    return settings_digest(plain(experiment))


def header(
    experiment: Experiment,
    *,
    name: str,
    arm: dict[str, str],
    device: torch.device,
    dimension: int,
    malicious: tuple[int, ...],
    partition: Partition,
    labeled: bool,
    data: str,
    shards: tuple[tuple[int, ...], ...],
) -> RunHeader:
    """Put the header together; `shards` are those of the first round."""
    leak, settings = forecast(experiment), plain(experiment)
    return RunHeader(
        name=name,
        digest=digest(experiment),
        settings=settings,
        sources=sources(settings) or msgspec.UNSET,
        data_sha256=data,
        seed=experiment.seed,
        rounds=experiment.rounds,
        versions={
            "f2ed": f2ed.__version__,
            "python": platform.python_version(),
            "numpy": np.__version__,
            "torch": str(torch.__version__),
        },
        device=_device_name(device),
        dimension=dimension,
        clients=experiment.clients,
        malicious=malicious,
        estimator=Plugin.of(experiment.estimator),
        attack=None if experiment.attack is None else Plugin.of(experiment.attack),
        samples=tuple(partition.sizes),
        labels=tuple(map(tuple, partition.histograms)) if labeled else None,
        shards=shards,
        mode=experiment.mode,
        crowd=_crowd(experiment),
        guarantee=msgspec.to_builtins(guarantee_with(experiment)),
        tolerated=experiment.estimator.assumed_f(experiment.rows),
        forecast=None if leak is None else leak.record(),
        noise=_noise(experiment, dimension),
        arm=arm,
        started=datetime.now(UTC).isoformat(timespec="seconds"),
    )


def guarantee_with(experiment: Experiment, opened: int | None = None) -> Guarantee:
    """Return the guarantee where this many shards opened; by default all of them."""
    rows = experiment.rows if opened is None else opened
    return guarantee(clients=experiment.sampled, malicious=experiment.assumed_malicious, shards=max(rows, 1))


def _crowd(experiment: Experiment) -> int:
    """Return the smallest number of clients in whose mean an update may be opened."""
    mode = experiment.mode
    if experiment.helpers is not None:
        return experiment.helpers.crowd_for(experiment.clients) if experiment.secure else 1
    return 1 if mode == "none" else experiment.protocol.quorum_for(mode, experiment.crowd).min_crowd


def _device_name(device: torch.device) -> str:
    return torch.cuda.get_device_name(device) if device.type == "cuda" else device.type


def _noise(experiment: Experiment, dimension: int) -> NoiseRecord | None:
    if experiment.dp is None:
        return None
    cost = run_noise_cost(experiment, dimension)
    return NoiseRecord(
        noise_multiplier=cost.noise_multiplier,
        delta=cost.delta,
        clip_norm=cost.clip_norm,
        shard=cost.shard_deviation,
        shard_norm=cost.shard_norm,
        colluders=experiment.protocol.colluders,
    )
