"""Rounds with helpers over Flower's grid, for a server app with a loop of its own.

    rounds = HelpedRounds(grid, roster="roster.json", server_key="server.key")
    for number in range(1, 11):
        arrays, outcome = rounds.lead(arrays, ConfigRecord(), number)

The server relays sealed bytes. Whatever a client or helper does, or does not do in time, ends in an outcome that names
it; a round without a mean leaves the model as it is, and the next one may be led.
"""

import os
from collections.abc import Generator, Iterator, Mapping
from contextlib import closing, nullcontext
from logging import getLogger
from pathlib import Path
from typing import Any, final

from flwr.app import ArrayRecord, ConfigRecord
from flwr.serverapp import Grid

from f2ed.core.errors import ConfigError, PeerError, Refusal
from f2ed.deployment.identity import roster_from
from f2ed.deployment.keyfiles import read_private
from f2ed.deployment.pace import Pace
from f2ed.deployment.roster import Roster, check_countersigned, helped_terms, helpers_of
from f2ed.deployment.row_file import FileRows
from f2ed.deployment.training_rules import SERVER_ROUND
from f2ed.deployment.transparency import Heads
from f2ed.flower.arrays import moved, stated_plan
from f2ed.flower.handover import check_model, train_input
from f2ed.flower.node_registry import NodeRegistry
from f2ed.flower.transport import Connection, Deadlines, Question
from f2ed.flower.wire import carried_content, reply_bytes, request_content
from f2ed.protocol.helpers import JUDGE, MIXER, HelpersOutcome, MemoryRows, Role, ServerTask, Terms, helped_mean
from f2ed.protocol.helpers.keys import opening_text
from f2ed.protocol.helpers.messages import Opening, Refused, decode
from f2ed.protocol.helpers.terms import bind
from f2ed.protocol.primitives.crypto import public_key, verify
from f2ed.protocol.sharding import ClientId

__all__ = ["HelpedRounds"]

_log = getLogger("f2ed.flower")

_HELPERS: tuple[Role, Role] = (MIXER, JUDGE)


@final
class HelpedRounds:
    """Leads one round after another, under a roster that names helpers."""

    def __init__(
        self,
        grid: Grid,
        *,
        roster: Roster | str | Path,
        server_key: str | Path,
        deadline: float = 120.0,
        train_deadline: float = 3600.0,
        malicious: int = 1,
        rows_folder: str | Path | None = None,
    ) -> None:
        """Refuse a roster without helpers that agreed to serve, and a key that is not the one it names for the server.

        Deadlines are in seconds: for each step of a helper, and for the clients' training. Up to `malicious` clients
        may lie about the last round that they answered, from which the first one here follows. Masked rows, 8 bytes a
        parameter for each client, are in memory, or in a file of `rows_folder`.
        """
        self._roster = roster if isinstance(roster, Roster) else roster_from(roster)
        self._key = read_private(Path(server_key))
        try:
            self._settings = helpers_of(self._roster).settings
            check_countersigned(self._roster)
        except Refusal as error:
            raise ConfigError(str(error)) from None
        if public_key(self._key) != self._roster.server:
            raise ConfigError(f"{server_key} is not the key that the roster names for the server")
        self._deadlines = Deadlines(deadline, train_deadline)
        self._folder = None if rows_folder is None else Path(rows_folder)
        self._job = self._roster.job(grid.run.run_id)
        self._connection = Connection(grid, Heads(self._roster), sparing=True)
        self._registry = NodeRegistry(
            self._connection, self._roster, self._job, pace=Pace(malicious=malicious), deadlines=self._deadlines
        )
        self._malicious = malicious
        self._following: int | None = None
        self._epoch = -1
        self._kept: tuple[ClientId, ...] | None = None
        self._struck: tuple[ClientId, ...] = ()

    def lead(self, arrays: ArrayRecord, config: ConfigRecord, round_: int) -> tuple[ArrayRecord, HelpersOutcome]:
        """Lead a round; return the model after it, and how it ended. `round_` is what the clients' app is told."""
        check_model(arrays)
        config = ConfigRecord(dict(config) | {SERVER_ROUND: round_})
        clients = self._registry.present()
        number = self._following
        if number is None:  # Rounds count over all runs; what clients claim later does not matter.
            number = self._registry.next_round(0, malicious=self._malicious)
        self._following = number + 1
        plan = stated_plan(arrays, self._roster.array_rules, clip_value=self._roster.encoding.clip_value)
        terms = helped_terms(self._roster, self._job, number, coordinates=plan.coordinates)
        if terms.epoch != self._epoch:
            self._epoch, self._kept, self._struck = terms.epoch, None, ()
        model = train_input(arrays, config).digest(self._registry.run_config())
        asking = _Asking(self._connection, self._deadlines, clients, arrays, config, self._opener(terms, model))
        outcome = self._driven(terms, model, asking)
        self._kept = outcome.kept or self._kept
        self._struck = tuple(sorted({*self._struck, *outcome.struck}))
        faults = {client: outcome.dropped[client] for client in clients if client in outcome.dropped}
        self._registry.suspend(faults, clients, asking.late)
        if outcome.mean is None:
            _log.warning("f2ed: round %s (number %s) opened no sum: %s", round_, number, outcome.aborted)
            return arrays, outcome
        _log.info("f2ed: round %s (number %s): the mean of %s clients", round_, number, len(outcome.kept))
        return moved(arrays, outcome.mean, plan), outcome

    def _driven(self, terms: Terms, model: bytes, asking: "_Asking") -> HelpersOutcome:
        rows: FileRows | MemoryRows = MemoryRows()
        if self._folder is not None:
            name = f"{os.getpid()}-{terms.round}.rows"
            rows = FileRows(self._folder / name, terms.members, terms.coordinates)
        task = ServerTask(
            terms=terms,
            roster=self._roster.keys,
            model=model,
            signing_key=self._key,
            entropy=os.urandom(32),
            rows=rows,
            before=self._kept,
            struck=self._struck,
        )
        server = helped_mean(task)
        with closing(rows) if isinstance(rows, FileRows) else nullcontext():
            try:
                requests = next(server)
                while True:
                    following: Mapping[Any, bytes] = {}
                    with closing(asking(requests)) as replies:
                        for party, reply in replies:
                            following = server.send({party: reply})
                            if following:
                                break
                    requests = following or server.send({})
            except StopIteration as stop:
                outcome: HelpersOutcome = stop.value
                return outcome

    def _opener(self, terms: Terms, model: bytes) -> "_Opener":
        return _Opener(terms, bind(terms, self._roster.keys, model))


class _Opener:
    """Finds the helpers among the nodes that are no clients: by their signatures on the opening of this round."""

    def __init__(self, terms: Terms, context: bytes) -> None:
        self._terms, self._context = terms, context

    def role_of(self, reply: bytes) -> Role | None:
        """Return the role of the helper that signed an opening; None if no helper did."""
        try:
            opening = decode((Opening,), reply)
        except PeerError:
            return None
        assert isinstance(opening, Opening)  # noqa: S101  the only kind
        for role in _HELPERS:
            try:
                verify(self._terms.key_of(role), opening_text(self._context, role, opening), opening.signature)
            except PeerError:
                continue
            return role
        return None


class _Asking:
    """The exchange of one round, with clients by their ids and helpers by their roles."""

    def __init__(
        self,
        connection: Connection,
        deadlines: Deadlines,
        clients: Mapping[ClientId, int],
        arrays: ArrayRecord,
        config: ConfigRecord,
        opener: _Opener,
    ) -> None:
        self._connection, self._deadlines, self._opener = connection, deadlines, opener
        self._arrays, self._config = arrays, config
        self._places: dict[Any, int] = dict(clients)
        self.late: set[ClientId] = set()
        """Clients that did not answer in time."""

    def __call__(self, requests: Mapping[Any, bytes]) -> Generator[tuple[Any, bytes], None, None]:
        """Deliver requests, and yield replies as they come; who is late or not connected is left out."""
        if set(requests) == set(_HELPERS) and not self._places.keys() & set(_HELPERS):
            yield from self._opened(requests[MIXER])
            return
        there = {self._places[party]: party for party in requests if party in self._places}
        questions = {node: self._question(party, requests[party]) for node, party in there.items()}
        for node, reply, _ in self._connection.ask(questions, group=self._group) if questions else ():
            party = there.pop(node)
            try:
                heard = reply_bytes(reply)
                if party not in _HELPERS:
                    self._connection.keep_line(party, reply)
            except PeerError as error:
                _log.warning("f2ed: %s (node %s): %s", party, node, error)
                continue
            del reply
            yield party, heard
        self.late |= {party for party in there.values() if party not in _HELPERS}

    @property
    def _group(self) -> str:
        return str(self._config[SERVER_ROUND])

    def _opened(self, request: bytes) -> Iterator[tuple[Role, bytes]]:
        """Ask all nodes that are no clients to open the round; a refusal counts for a helper that is missing."""
        taken = set(self._places.values())
        others = [node for node in self._connection.node_ids() if node not in taken]
        questions = {node: self._question(MIXER, request) for node in others}
        refusals: list[tuple[str, bytes]] = []
        for node, reply, _ in self._connection.ask(questions, group=self._group) if questions else ():
            try:
                heard = reply_bytes(reply)
            except PeerError as error:
                _log.warning("f2ed: node %s, which is no client: %s", node, error)
                continue
            role = self._opener.role_of(heard)
            if role is not None and role not in self._places:
                self._places[role] = node
                yield role, heard
                if self._places.keys() >= set(_HELPERS):
                    return
            elif role is None and (reason := _reason(heard)):
                refusals.append((reason, heard))
        for role in _HELPERS:
            if role not in self._places and refusals:
                said = next((each for each in refusals if role in each[0]), refusals[0])
                refusals.remove(said)
                yield role, said[1]

    def _question(self, party: ClientId | Role, request: bytes) -> Question:
        if party in _HELPERS:
            return Question(carried_content(request), self._deadlines.step, lambda: self._deadlines.step)
        content = request_content(ConfigRecord({"request": request}), arrays=self._arrays, config=self._config)
        return Question(content, self._deadlines.train, lambda: self._deadlines.train)


def _reason(reply: bytes) -> str:
    try:
        found = decode((Refused,), reply)
    except PeerError:
        return ""
    assert isinstance(found, Refused)  # noqa: S101  the only kind
    return found.reason
