"""The record of a round: what the server saw and did, and how good the model is afterwards."""

from collections.abc import Collection
from math import isfinite
from typing import Any

import numpy as np
import torch
from msgspec import UNSET
from torch import Tensor

from f2ed.attacks import Success
from f2ed.estimators import Estimate
from f2ed.guarantees import LeakFollower
from f2ed.learning import Score
from f2ed.protocol.aggregation import Audit, StepResult
from f2ed.protocol.dp import Ledger
from f2ed.records import RoundRecord, Seconds
from f2ed.simulation.assignments import Assignments
from f2ed.simulation.checkpoint import SimulationState
from f2ed.simulation.client_weights import ClientWeights
from f2ed.simulation.config import Experiment
from f2ed.simulation.header import guarantee_with
from f2ed.simulation.helped import everyone
from f2ed.simulation.opened_rows import OpenedRows

__all__ = ["Recorder"]


class Recorder:
    """Makes the records of a run; `attackers` are the clients that attack, if any do."""

    def __init__(
        self,
        experiment: Experiment,
        assignments: Assignments,
        attackers: Collection[int],
        weights: ClientWeights | None,
    ) -> None:
        self._experiment = experiment
        self._assignments = assignments
        self._attackers = frozenset(attackers)
        summed = everyone(experiment.clients)
        self._tracker = LeakFollower(
            assignments if experiment.helpers is None else lambda _: summed,
            range(experiment.clients),
            None if weights is None else weights.by_client,
        )

    def __call__(
        self,
        after: SimulationState,
        *,
        opened: OpenedRows,
        result: StepResult,
        moved: Tensor | None,
        score: Score,
        success: Success | None,
        seconds: Seconds,
    ) -> RoundRecord:
        """Return the record of the round that led to this state."""
        number = after.round - 1
        shards = self._assignments(number).shards
        contaminated = tuple(shard for shard, members in enumerate(shards) if not self._attackers.isdisjoint(members))
        estimate = result.estimate
        return RoundRecord(
            round=number,
            accuracy=score.accuracy,
            loss=score.loss if isfinite(score.loss) else None,
            metric=UNSET if score.metric is None or not isfinite(score.metric) else score.metric,
            success=None if success is None else success.others,
            success_every=None if success is None else success.every,
            skipped=result.skipped,
            weights=_weights(opened, estimate, len(shards)),
            counted=UNSET if opened.weights is None else dict(zip(opened.shards, opened.weights, strict=True)),
            excluded=_excluded(opened, estimate),
            dropped=dict(opened.dropped),
            contaminated=contaminated,
            eigenvalue=None if estimate is None else estimate.eigenvalue,
            iterations=0 if estimate is None else estimate.iterations,
            stopped="" if estimate is None else estimate.stopped,
            step=0.0 if moved is None else float(torch.linalg.vector_norm(moved, dtype=torch.float64)),
            guarantee=guarantee_with(self._experiment, len(opened.shards)).region,
            dp_epsilon=self._dp_epsilon(after.ledger),
            leak=self._tracker(after.unopened) if self._experiment.mode != "none" else None,
            seconds=seconds,
            run_ended=after.patience.ended or UNSET,
            **({} if opened.audit is None else _counts(opened.audit, contaminated, sum(map(len, shards)))),
            **({} if self._experiment.helpers is None else _helped_counts(opened)),
        )

    def _dp_epsilon(self, ledger: Ledger) -> float | dict[int, float] | None:
        """Return what each client has spent so far; one number where it is the same for all."""
        if self._experiment.dp is None:
            return None
        spent = ledger.dp_epsilon(range(self._experiment.clients), delta=self._experiment.dp.delta)
        every = {client: round(epsilon, 4) for client, epsilon in spent.items()}
        return every[0] if len(set(every.values())) == 1 else every


def _weights(opened: OpenedRows, estimate: Estimate | None, shards: int) -> tuple[float, ...] | None:
    """Return the weight of every shard; None for rules that choose per coordinate."""
    if estimate is None or estimate.weights is None:
        return None
    every = np.zeros(shards)
    every[list(opened.shards)] = estimate.weights
    return tuple(float(weight) for weight in every)


def _excluded(opened: OpenedRows, estimate: Estimate | None) -> dict[int, str]:
    not_finite = () if estimate is None else estimate.excluded
    return dict(sorted((opened.excluded | {opened.shards[row]: "not finite" for row in not_finite}).items()))


def _helped_counts(opened: OpenedRows) -> dict[str, Any]:
    return {"crowd": len(opened.kept or ()), "bytes_up": opened.bytes_up, "shortened": opened.shortened}


def _counts(audit: Audit, contaminated: Collection[int], clients: int) -> dict[str, Any]:
    """Return what the audit counted: over all clients, bytes for one client on average."""
    return {
        "crowd": audit.crowd,
        "clipped": sum(each.clipped for each in audit.shards),
        "clipped_honest": sum(each.clipped for each in audit.shards if each.shard not in contaminated),
        "shortened": sum(each.shortened for each in audit.shards),
        "bytes_up": round(sum(each.bytes_up for each in audit.shards) / clients),
        "bytes_down": round(sum(each.bytes_down for each in audit.shards) / clients),
    }
