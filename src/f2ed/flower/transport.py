"""The protocol's exchange over Flower's grid: requests go out together, replies come in as they arrive.

A client that is not connected, answers with an error, or is late has dropped out; the reason is kept. A reply that
comes after its deadline is reported in a later round, and not used.
"""

import time
from collections import Counter
from collections.abc import Callable, Container, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from logging import WARNING, getLogger
from math import inf
from threading import Lock
from typing import Any, NamedTuple, TypeAlias

from flwr.app import Message, RecordDict
from flwr.serverapp import Grid

from f2ed.core.errors import PeerError
from f2ed.deployment.pace import Pace
from f2ed.deployment.training_rules import TRAIN
from f2ed.deployment.transparency import Heads
from f2ed.deployment.transparency.lines import HELPERS
from f2ed.flower.pulls import Pulls
from f2ed.flower.wire import is_refusal, reply_bytes, reply_line
from f2ed.protocol.sharding import ClientId

__all__ = ["Connection", "Deadlines", "LateReply", "Post", "Posted", "Question", "RoundExchange"]

_log = getLogger("f2ed.flower")

_FIRST_PAUSE, _MAX_PAUSE = 0.05, 0.5
_HELPER_PAUSE = 0.1
"""A round has about ten exchanges with helpers, one after the other, so their replies are looked for often."""
_POLLS = 24.0
"""Messages that all threads ask for in a second, beyond the first few; each costs the SuperLink some milliseconds."""
_AGAIN, _AGAIN_BYTES = 10.0, 1e6
"""A helper is asked again after so many seconds, and one more for so many bytes of the request. Its node may have ended
with the request, which nobody then answers: Flower delivers a message once."""
_GRACE = 10.0
"""A message outlives its latest deadline by this many seconds, so that a late reply is reported as late."""


class Deadlines(NamedTuple):
    """How long nodes may take, in seconds. The deadline of a step adapts to the others between two bounds."""

    step: float
    """At most."""
    train: float
    """At most, for the step in which they train."""
    least: float = 30.0
    factor: float = 4.0
    """A reply may take as many times longer than usual."""

    def adapted(self, pace: Pace, step: str, most: float) -> float:
        """Return the deadline of a step now."""
        return pace.deadline(step, factor=self.factor, least=min(self.least, most), most=most)


class Question(NamedTuple):
    """A message to a node, and how long the reply may take."""

    content: RecordDict
    most: float
    """Seconds, in any case."""
    deadline: Callable[[], float]
    """Seconds, which may change while others answer."""
    pause: float = _MAX_PAUSE
    """Seconds between two looks for replies, at most, where few are waited for."""
    again: float = inf
    """Seconds without a reply after which the same is sent once more, then after twice as many; for those alone that
    answer the same bytes with the same bytes."""
    asked_again: Callable[[float], None] = lambda _: None
    """Told each time, after how many seconds."""


class LateReply(NamedTuple):
    """A reply that came after its deadline."""

    node: int
    round: str
    seconds: float
    """Since it was asked."""


class _Unanswered(NamedTuple):
    node: int
    round: str
    since: float
    until: float


class Connection:
    """Asks nodes and yields their answers until all have come or time is up. May be used from several threads."""

    def __init__(self, grid: Grid, heads: Heads | None = None, *, sparing: bool = False) -> None:
        """If `sparing` of memory, take one reply at a time over all threads, and the next when it has been used."""
        self._grid = grid
        self._heads = heads
        self._lock = Lock()
        self._pulls = Pulls(grid, sparing=sparing)
        self._gate: AbstractContextManager[object] = Lock() if sparing else nullcontext()
        self._late: dict[str, _Unanswered] = {}
        self._waited: dict[object, int] = {}
        """How many replies each thread waits for."""

    def node_ids(self) -> list[int]:
        """Return the nodes that are connected."""
        with self._lock:
            return list(self._grid.get_node_ids())

    def push(
        self, contents: Mapping[int, RecordDict], *, group: str, lifetime: float, kind: str = TRAIN
    ) -> dict[str, int]:
        """Send each node its content and return at once, with the node of each message."""
        messages = [
            Message(content, node, kind, ttl=lifetime + _GRACE, group_id=group) for node, content in contents.items()
        ]
        with self._lock:
            pushed = list(self._grid.push_messages(messages))
        return {each: node for each, node in zip(pushed, contents, strict=False) if each}

    def keep_line(self, author: int, reply: Message) -> None:
        """Check and keep the line of its log that a party sent along, or raise `PeerError`; a refusal may have none.

        Simulated nodes keep no logs, so nothing is expected of them.
        """
        line = reply_line(reply)
        if self._heads is not None and (line or not is_refusal(reply_bytes(reply))):
            with self._lock:
                self._heads.take(author, line)

    def pull(self, messages: list[str]) -> Iterator[Message]:
        """Yield the replies that have arrived, a few at a time: uploads may be large and many."""
        batch = self._pulls.batch
        for start in range(0, len(messages), batch):
            with self._gate:
                with self._lock:
                    replies = self._pulls(messages[start : start + batch])
                while replies:
                    yield replies.pop()

    def ask(
        self, questions: Mapping[int, Question], *, group: str, kind: str = TRAIN
    ) -> Iterator[tuple[int, Message, float]]:
        """Ask nodes and yield (node, reply, seconds) in the order of arrival; late nodes are left out."""
        since = time.monotonic()
        lifetime = max((question.most for question in questions.values()), default=0.0)
        contents = {node: question.content for node, question in questions.items()}
        waiting = self.push(contents, group=group, lifetime=lifetime, kind=kind)
        again = {node: question.again for node, question in questions.items()}
        pause, mine = _FIRST_PAUSE, object()

        def give_up(ended: Container[int]) -> None:
            for each, node in [(each, node) for each, node in waiting.items() if node in ended]:
                del waiting[each]
                self._late[each] = _Unanswered(node, group, since, since + lifetime + _GRACE)

        try:
            while waiting:
                for reply in self.pull(list(waiting)):
                    node = waiting.pop(reply.metadata.reply_to_message_id, None)
                    if node is not None:
                        give_up({node})  # What it was asked more than once.
                        yield node, reply, time.monotonic() - since
                    del reply  # It may be large, and the next may be a while in coming.
                passed = time.monotonic() - since
                give_up({node for node in waiting.values() if questions[node].deadline() <= passed})
                for node in {node for node in waiting.values() if again[node] <= passed}:
                    again[node] = 2 * again[node] + questions[node].again
                    waiting |= self.push({node: contents[node]}, group=group, lifetime=lifetime, kind=kind)
                    questions[node].asked_again(passed)
                if waiting:
                    time.sleep(pause)
                    longest = min(questions[node].pause for node in waiting.values())
                    pause = min(2 * pause, max(longest, self._all_waited(mine, len(waiting)) / _POLLS))
        finally:
            self._all_waited(mine, 0)

    def _all_waited(self, mine: object, count: int) -> float:
        """Note how many replies this thread waits for; return how many requests all threads need to look once."""
        with self._lock:
            self._waited[mine] = count
            if not count:
                del self._waited[mine]
            return sum(self._waited.values()) / self._pulls.batch

    def late_replies(self) -> list[LateReply]:
        """Return the replies that came after their deadline, each once; their content is dropped."""
        now = time.monotonic()
        for message in [message for message, each in self._late.items() if each.until < now]:
            del self._late[message]
            self._pulls.forget(message)
        found = []
        for reply in self.pull(list(self._late)):
            each = self._late.pop(reply.metadata.reply_to_message_id, None)
            if each and not reply.has_error():
                found.append(LateReply(each.node, each.round, now - each.since))
        return found


class Posted(NamedTuple):
    """A request as it is sent to a node."""

    content: RecordDict
    step: str
    """Its kind, such as take about the same time on all nodes; "" if its deadline does not follow theirs."""
    trains: bool = False
    """Whether the node trains, and is given the model."""


Post: TypeAlias = Callable[[Any, bytes], Posted]
"""Makes a message of a request to a client, by its id, or to a helper, by its role."""


class RoundExchange:
    """The exchange of one round. The model travels only with the requests that ask for an update."""

    def __init__(
        self,
        connection: Connection,
        nodes: Mapping[Any, int],
        *,
        absent: Mapping[ClientId, str],
        number: int,
        post: Post,
        model_bytes: int,
        deadlines: Deadlines,
        pace: Pace,
        kind: str = TRAIN,
    ) -> None:
        self._connection = connection
        self._nodes = nodes
        self._absent = absent
        self._number = number
        self._post = post
        self._deadlines = deadlines
        self._pace = pace
        self._kind = kind
        self._model_bytes = model_bytes
        self.errors: dict[Any, str] = {}
        """Why a client or helper did not answer, where more is known than its silence."""
        self.late: set[Any] = set()
        """Those that were asked and did not answer in time."""
        self.models_sent = 0
        self.sent: Counter[Any] = Counter()
        """Bytes of requests, to each."""
        self.received: Counter[Any] = Counter()

    @property
    def bytes_of_models(self) -> int:
        """What the models took that were sent."""
        return self.models_sent * self._model_bytes

    def __call__(self, requests: Mapping[Any, bytes]) -> Iterator[tuple[Any, bytes]]:
        """Deliver requests and yield replies in the order of arrival."""
        there = {self._nodes[party]: party for party in requests if party in self._nodes}
        self.errors |= {p: self._absent.get(p, "not connected") for p in requests if p not in self._nodes}
        posted = {party: self._post(party, requests[party]) for party in there.values()}
        for party, each in posted.items():
            self.sent[party] += len(requests[party])
            self._pace.ask(each.step, [party])
        questions = {node: self._question(party, posted[party], len(requests[party])) for node, party in there.items()}
        for node, reply, seconds in self._asked(questions):
            party = there.pop(node)
            self._pace.observe(posted[party].step, party, seconds)
            try:
                heard = reply_bytes(reply)
                self._connection.keep_line(party if isinstance(party, int) else HELPERS[party], reply)
            except PeerError as error:
                self.errors[party] = str(error)
                _log.log(WARNING, "f2ed: %s (node %s): %s", _named(party), node, error)
            else:
                del reply
                self.received[party] += len(heard)
                yield party, heard
                del heard
        for node, party in there.items():
            self._give_up(party, posted[party].step, questions[node].deadline())

    def _asked(self, questions: Mapping[int, Question]) -> Iterator[tuple[int, Message, float]]:
        if not questions:
            return iter(())
        return self._connection.ask(questions, group=str(self._number), kind=self._kind)

    def _give_up(self, party: Any, step: str, deadline: float) -> None:
        self.errors[party] = f"late: no reply within {deadline:.3g} s"
        self.late.add(party)
        self._pace.observe(step, party, deadline)

    def _question(self, party: Any, posted: Posted, size: int) -> Question:
        most = self._deadlines.train if posted.trains else self._deadlines.step
        self.models_sent += posted.trains
        if not posted.step:

            def asked_again(seconds: float) -> None:
                self.sent[party] += size
                _log.warning("f2ed: %s gave no answer for %.0f s, and is asked again", _named(party), seconds)

            again = _AGAIN + size / _AGAIN_BYTES
            return Question(posted.content, most, lambda: most, _HELPER_PAUSE, again, asked_again)
        return Question(posted.content, most, lambda: self._deadlines.adapted(self._pace, posted.step, most))


def _named(party: Any) -> str:
    return f"client {party}" if isinstance(party, int) else f"the {party}"
