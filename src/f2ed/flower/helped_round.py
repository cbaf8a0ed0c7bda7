"""A round with helpers: one sum over the clients that the judge keeps, of which the server sees nothing else."""

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord

from f2ed.core.errors import ConfigError, Refusal
from f2ed.core.spill import Spill
from f2ed.deployment.journal import SeenRows
from f2ed.deployment.roster import Roster, helped_terms
from f2ed.deployment.row_file import FileRows
from f2ed.deployment.server_guard import GuardFile
from f2ed.deployment.training_rules import TRAIN
from f2ed.flower.checkpoint import Progress
from f2ed.flower.persistent import Persistent
from f2ed.flower.round import OpenedRound, OpenedSums, RoundStart
from f2ed.flower.transport import Post, Posted, RoundExchange
from f2ed.flower.wire import carried_content, request_content
from f2ed.protocol.aggregation import Audit, Conversation, ServerStep, ShardAudit, UpdatePlan, each_alone
from f2ed.protocol.helpers import (
    HelpersOutcome,
    MemoryRows,
    Role,
    RowStore,
    ServerGuard,
    ServerTask,
    Terms,
    helped_mean,
)
from f2ed.protocol.helpers.terms import bind
from f2ed.protocol.sharding import ClientId

__all__ = ["HelpedRounds", "check_plan"]

_MODE = "helpers"
_WORD = 8
"""Bytes of a masked coordinate."""


class HelpedRounds(NamedTuple):
    """Opens rounds with a mixer and a judge."""

    roster: Roster
    step: ServerStep
    plan: UpdatePlan
    job: str
    signing_key: bytes
    """The server's, which the roster names."""
    spill: Spill | None = None
    """Where masked rows go beyond the memory budget."""
    memory: GuardFile | None = None
    """What the server remembers of survivors over all runs."""

    def __repr__(self) -> str:
        """Show no secret."""
        return f"HelpedRounds(job={self.job!r}, signing_key=<secret>)"

    def post(self, model: bytes, arrays: ArrayRecord, config: ConfigRecord, kind: str = TRAIN) -> Post:  # noqa: ARG002  a client's own digest counts
        """Return how requests become messages."""

        def posted(party: ClientId | Role, request: bytes) -> Posted:
            if isinstance(party, str):
                return Posted(carried_content(request), "")
            content = request_content(ConfigRecord({"request": request}), arrays=arrays, config=config)
            return Posted(content, f"{kind} upload", trains=True)

        return posted

    def open(self, start: RoundStart, progress: Progress, exchange: RoundExchange) -> OpenedRound:
        """Open the mean of the clients that are kept; the judge's estimate is the round's."""
        terms = helped_terms(self.roster, self.job, start.number, coordinates=self.plan.coordinates)
        guard = progress.guard.within(terms.epoch)
        try:
            guard = guard if self.memory is None else self.memory.begin(terms, guard)
            outcome = self._led(terms, guard, start, exchange)
        except Refusal as error:
            outcome = HelpersOutcome(aborted=str(error))
        skipped = None if outcome.aborted is None else _said(outcome.aborted, exchange.errors)
        result = self.step.from_estimate(outcome.estimate, progress.step, round_=progress.round, skipped=skipped)
        means = np.zeros((0, terms.coordinates), np.float32) if outcome.mean is None else outcome.mean[None]
        sums = OpenedSums(
            _audit(terms, outcome, skipped, exchange), means, partial(_context, terms, self.roster, start.model)
        )
        return OpenedRound(
            sums,
            _seen(terms, outcome, skipped, exchange.errors),
            result,
            time.monotonic(),
            guard=guard.after(outcome),
            innocent=frozenset(guard.struck),
        )

    def _led(self, terms: Terms, guard: ServerGuard, start: RoundStart, exchange: RoundExchange) -> HelpersOutcome:
        found: list[HelpersOutcome] = []
        with self._rows(terms) as rows:
            task = ServerTask(
                terms=terms,
                roster=self.roster.keys,
                model=start.model,
                signing_key=self.signing_key,
                entropy=os.urandom(32),
                rows=rows,
                before=guard.kept,
                struck=guard.struck,
                remember=None if self.memory is None else partial(self.memory.remember, terms),
            )
            # One conversation, in a thread of its own; meanwhile nodes that come back say hello.
            talk = Persistent(exchange, start.patience)
            each_alone(talk, [Conversation(helped_mean(task), found.append)], start.meanwhile)
        (outcome,) = found
        return outcome

    @contextmanager
    def _rows(self, terms: Terms) -> Iterator[RowStore]:
        size = _WORD * len(terms.members) * terms.coordinates
        if self.spill is None or size <= self.spill.budget:
            yield MemoryRows()
            return
        self.spill.check_room(size)
        path = self.spill.folder / f"f2ed-{os.urandom(8).hex()}.rows"
        with closing(FileRows(path, terms.members, terms.coordinates)) as rows:
            yield rows


def check_plan(plan: UpdatePlan) -> None:
    """Refuse a model whose clients would refuse to take part, before anything starts."""
    if plan.scales or plan.trained < plan.coordinates:
        raise ConfigError(
            "with helpers all coordinates are judged together and clipped alike, and the roster has buffers that are "
            "averaged, or clips of single arrays; sign it with f2ed roster sign --buffers keep or local, and without "
            "--array-clip"
        )


def _seen(terms: Terms, outcome: HelpersOutcome, skipped: str | None, errors: Mapping[Any, str]) -> SeenRows:
    compared = set(outcome.compared)
    reasons = outcome.absent | {client: errors[client] for client in outcome.dropped if client in errors}
    missing = {
        place: reasons.get(client, skipped or "not compared")
        for place, client in enumerate(terms.members)
        if client not in compared
    }
    places = tuple(place for place, client in enumerate(terms.members) if client in compared)
    return SeenRows(len(terms.members), places, missing)


def _audit(terms: Terms, outcome: HelpersOutcome, skipped: str | None, exchange: RoundExchange) -> Audit:
    """Return the record of a round, whose clients are all in one shard: one sum is opened, of some of them."""
    shard = ShardAudit(
        shard=0,
        mode=_MODE,
        members=terms.members,
        survivors=outcome.kept,
        reason=skipped,
        dropped=dict(outcome.dropped),
        clipped=0,
        shortened=0,
        bytes_up=sum(exchange.received[client] for client in terms.members),
        bytes_down=sum(exchange.sent[client] for client in terms.members),
    )
    return Audit(
        job=terms.job,
        epoch=terms.epoch,
        round=terms.round,
        secure=True,
        colluders=terms.colluders,
        shards=(shard,),
    )


def _context(terms: Terms, roster: Roster, model: bytes) -> tuple[bytes, ...]:
    return (bind(terms, roster.keys, model),)


def _said(aborted: str, errors: Mapping[Any, str]) -> str:
    """Return why no sum was opened, with what is known about a helper's silence."""
    known = [why for role, why in errors.items() if isinstance(role, str) and f"the {role} gave no" in aborted]
    return f"{aborted} ({known[0]})" if known else aborted
