"""One round over Flower: from the model to the next one, by way of shard means that the server may see."""

import time
from typing import NamedTuple

from flwr.app import ArrayRecord, ConfigRecord

from f2ed.deployment.journal import RoundOutcome
from f2ed.deployment.settings import ServerSettings
from f2ed.deployment.training_rules import SERVER_ROUND
from f2ed.deployment.transparency import ServerLog
from f2ed.flower.arrays import moved
from f2ed.flower.checkpoint import Progress
from f2ed.flower.handover import train_input
from f2ed.flower.node_registry import NodeRegistry
from f2ed.flower.transport import Connection, Deadlines, RoundExchange
from f2ed.protocol.aggregation import EpochKeys, ServerStep, shard_means
from f2ed.protocol.secagg import scheme_of
from f2ed.records import Seconds

__all__ = ["RoundLeader"]


class RoundLeader(NamedTuple):
    """Leads one round after another of a Flower run."""

    connection: Connection
    registry: NodeRegistry
    job: str
    settings: ServerSettings
    step: ServerStep
    coordinates: int
    keys: EpochKeys
    log: ServerLog | None = None

    def lead(
        self, progress: Progress, train_config: ConfigRecord, deadlines: Deadlines
    ) -> tuple[ArrayRecord, RoundOutcome]:
        """Lead the round after those that are finished; return the model after it, and what happened.

        The protocol numbers rounds over all runs of the federation, so its number may be larger than the run's.
        """
        round_ = progress.round
        began = time.monotonic()
        config = ConfigRecord({**train_config, SERVER_ROUND: round_ + 1})
        present = self.registry.present(deadline=deadlines.step)
        exchange = RoundExchange(
            self.connection,
            present,
            number=round_ + 1,  # The protocol counts from 0, Flower's users from 1.
            model=train_input(progress.arrays, config).digest(self.registry.run_config()),
            arrays=progress.arrays,
            config=config,
            deadlines=deadlines,
        )
        number = self.registry.next_round(progress.following, malicious=self.settings.malicious)
        assignment = self.settings.roster.assignment(number)
        task = self.settings.task(self.job, number, model=exchange.model, coordinates=self.coordinates)
        # With several steps in lockstep, a slow shard would delay the others.
        modes = {task.protocol.mode_for(len(shard)) for shard in assignment.shards}
        independent = any(scheme_of(mode).several_steps for mode in modes)
        means, audit = shard_means(exchange, assignment, task, keys=self.keys, independent=independent)
        opened = time.monotonic()
        result = self.step(means, progress.step, round_=round_)
        seconds = Seconds(exchange=opened - began, estimate=time.monotonic() - opened)
        arrays = progress.arrays if result.estimate is None else moved(progress.arrays, result.estimate.mean)
        if self.log is not None:
            before, after = (train_input(each, ConfigRecord()).model() for each in (progress.arrays, arrays))
            self.log.write(task, assignment, audit, means=means, errors=exchange.errors, before=before, after=after)
        return arrays, RoundOutcome(audit, result, exchange.errors, seconds)
