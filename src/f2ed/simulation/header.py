"""The first record of a run: what was run, and with what."""

import hashlib
import platform
from datetime import UTC, datetime
from typing import Literal

import msgspec
import numpy as np
import torch

import f2ed
from f2ed.estimators.base import withstood
from f2ed.guarantees import Guarantee, guarantee
from f2ed.learning import Partition
from f2ed.protocol.secagg import Mode, quorum
from f2ed.protocol.sharding import Assignment
from f2ed.records import RunHeader
from f2ed.simulation.config import Experiment
from f2ed.simulation.leak_meter import as_record, forecast
from f2ed.simulation.validate import noise_price

__all__ = ["digest", "header", "holds"]


def digest(experiment: Experiment) -> str:
    """Return SHA-256 of the settings, in an order that does not depend on how they were written."""
    settings = msgspec.json.encode(experiment, order="deterministic")
    # Runs of before there were these settings keep their names: to have none is to say nothing about it.
    for unsaid in (b',"attack_from":0', b',"privacy":null'):
        settings = settings.replace(unsaid, b"")
    return hashlib.sha256(settings).hexdigest()


def header(
    experiment: Experiment,
    *,
    name: str,
    arm: dict[str, str],
    device: torch.device,
    dimension: int,
    malicious: tuple[int, ...],
    partition: Partition,
    plan: Assignment,
    mode: Mode | Literal["none"],
) -> RunHeader:
    """Put the header together; `mode` says how updates are kept secret."""
    holding = holds(experiment)
    hidden = _hidden_among(experiment, mode)
    return RunHeader(
        name=name,
        digest=digest(experiment),
        settings=msgspec.to_builtins(experiment),
        seed=experiment.seed,
        rounds=experiment.rounds,
        versions={
            "f2ed": f2ed.__version__,
            "python": platform.python_version(),
            "numpy": np.__version__,
            "torch": str(torch.__version__),
        },
        device=_named(device),
        dimension=dimension,
        clients=experiment.clients,
        malicious=malicious,
        attacked=experiment.attack is not None,
        samples=tuple(partition.sizes),
        labels=tuple(map(tuple, partition.histograms)),
        shards=plan.shards,
        mode=mode,
        crowd=hidden,
        guarantee=msgspec.to_builtins(holding),
        verdict=_verdict(holding, hidden),
        forecast=as_record(forecast(experiment)),
        notes=(*_notes(experiment, mode), *_noise(experiment, dimension)),
        arm=arm,
        started=datetime.now(UTC).isoformat(timespec="seconds"),
    )


def holds(experiment: Experiment, opened: int | None = None) -> Guarantee:
    """Return what is guaranteed if so many shards opened; by default all of them."""
    rows = experiment.rows if opened is None else opened
    return guarantee(clients=experiment.clients, malicious=experiment.malicious, shards=max(rows, 1))


def _hidden_among(experiment: Experiment, mode: Mode | Literal["none"]) -> int:
    """Return in the mean of how many clients, at the least, an update may be seen."""
    if mode == "all-or-nothing":
        return experiment.crowd
    if mode == "dropout-tolerant":
        protocol = experiment.protocol
        return protocol.min_crowd or quorum(mode, experiment.crowd, protocol.colluders)[1]
    return 1


def _named(device: torch.device) -> str:
    return torch.cuda.get_device_name(device) if device.type == "cuda" else device.type


def _verdict(holding: Guarantee, hidden: int) -> str:
    spoilt = f"{holding.malicious} malicious clients can spoil {holding.worst_share:.0%} of {holding.shards} rows"
    held = {
        "theorem": "below 1/12, so the theorem bounds their influence",
        "experience": "which is experience and no theorem: that asks for less than 1/12",
        "nothing": "half or more, against which no rule can help",
    }[holding.region]
    privacy = f"every update is hidden among at least {hidden}" if hidden > 1 else "no update is hidden from the server"
    return f"{spoilt}, {held}; {privacy}"


def _notes(experiment: Experiment, mode: str) -> list[str]:
    notes = []
    if mode == "none":
        notes.append("the estimator sees every client's update: there is no secure aggregation without shards")
    elif mode == "clear":
        notes.append("secure = false: the same integers were added in the clear")
    epsilon = getattr(experiment.estimator, "contamination", None)
    if epsilon is not None and (count := withstood(epsilon, experiment.rows)) < experiment.malicious:
        notes.append(
            f"the estimator is set to withstand {count} of {experiment.rows} rows, fewer than the "
            f"{experiment.malicious} that malicious clients spoil at worst"
        )
    return notes


def _noise(experiment: Experiment, dimension: int) -> list[str]:
    if experiment.privacy is None:
        return []
    cost = noise_price(experiment, dimension)
    whole = f"{cost.shard_norm:.3g} in all where an update has at most {cost.clip_norm:g}"
    size = f"{cost.shard:.3g} in each coordinate, {whole}"
    against = f"a server that sees what was opened and has the help of {experiment.protocol.colluders} members"
    notes = [
        f"every shard mean carries noise of {size}; what was clipped is not counted, since counts would tell",
        f"epsilon is told at delta {cost.delta:g}, for a client's whole data, against {against}",
    ]
    if not experiment.secure:
        notes.append("added in the clear, each update has its own noise alone: with masks epsilon would be smaller")
    return notes
