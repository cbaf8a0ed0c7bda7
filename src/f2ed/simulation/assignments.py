"""Which clients take part in each round of a run, and which of them share a shard."""

from f2ed.core.randomness import stream
from f2ed.protocol.sharding import Assignment, ClientId, Sampling
from f2ed.simulation.config import Experiment

__all__ = ["Assignments"]


class Assignments:
    """The shards of each round, computed once per epoch; without shards, every client is alone in its own."""

    def __init__(self, experiment: Experiment) -> None:
        self._experiment = experiment
        self._seed = stream(experiment.seed, "deal").bytes(32)
        self._known: tuple[int, Assignment] | None = None
        self.sampling: Sampling | None = None
        """None where everyone takes part in every round."""
        if experiment.sampled < experiment.clients:
            self.sampling = Sampling(
                dict.fromkeys(range(experiment.clients), b""),
                per_round=experiment.sampled,
                shards=experiment.rows,
                schedule=experiment.schedule,
                seed=self._seed,
            )

    def __call__(self, round_: int) -> Assignment:
        """Return the assignment of the epoch that the round belongs to."""
        epoch = self.epoch(round_)
        if self._known is None or self._known[0] != epoch:
            self._known = epoch, self._assign(round_)
        return self._known[1]

    def epoch(self, round_: int) -> int:
        """Return the epoch of a round."""
        if self.sampling is not None:
            return self.sampling.epoch(round_)
        return self._experiment.schedule(round_) if self._experiment.sharded else 0

    def clients(self, round_: int) -> list[ClientId]:
        """Return who takes part in a round, in ascending order."""
        return sorted(client for members in self(round_).shards for client in members)

    def shard_of(self, client: ClientId, round_: int) -> tuple[ClientId, ...]:
        """Return the members of a client's shard."""
        assignment = self(round_)
        return assignment.shards[assignment.shard_of(client)]

    def _assign(self, round_: int) -> Assignment:
        it = self._experiment
        if self.sampling is not None:
            return self.sampling(round_)
        if not it.sharded:
            shards = tuple((client,) for client in range(it.clients))
            return Assignment(shards=shards, epoch=0, seed=b"", roster=b"")
        roster = dict.fromkeys(range(it.clients), b"")
        return it.schedule.assign(roster, shards=it.rows, epoch=it.schedule(round_), seed=self._seed)
