"""What a node writes into its transparency log for each step that it takes."""

from logging import ERROR, getLogger
from typing import NamedTuple

from f2ed.deployment.transparency import LogFile, write_line
from f2ed.deployment.transparency import lines as log
from f2ed.protocol.primitives.crypto import digest
from f2ed.protocol.primitives.fields import unsigned
from f2ed.protocol.secagg import Answer, Member, Opening, Refused
from f2ed.protocol.secagg.messages import AskKey, AskUpload, Message, Request, read_reply, write
from f2ed.protocol.secagg.schemes.dropout_tolerant.messages import Alive, Delivery, Peers, TolerantUpload
from f2ed.protocol.secagg.terms import Terms, bind

__all__ = ["Pen", "StepEvents", "step_events"]

_log = getLogger("f2ed.deployment")

UnderWay = tuple[int, int, bytes]
"""Round, shard and context."""


class Pen:
    """Writes the log while one message is answered; without a log it writes nothing."""

    def __init__(self) -> None:
        self.log: LogFile | None = None
        self.line = b""
        """The newest line, for the reply."""

    def write(self, *events: log.Event) -> None:
        """Add events; once this returns, they are on the disk."""
        if self.log is not None:
            self.line = write_line(self.log.append(*events))

    def refused(self, reason: str) -> Refused:
        """Record a refusal and return it. A log that cannot be written stops nobody from refusing."""
        refusal = Refused(reason[:500])
        try:
            self.write(log.Refused(reason=refusal.reason))
        except Exception as error:  # noqa: BLE001  a full disk, too: Flower would send the text, which names files
            _log.log(ERROR, "f2ed: this node's log: %s", error)
        return refusal


class StepEvents(NamedTuple):
    """The events of a step, and the round that is under way after it."""

    events: tuple[log.Event, ...]
    under_way: UnderWay | None


def step_events(asked: Request, answer: Answer, member: Member, model: bytes, under_way: UnderWay | None) -> StepEvents:
    """Return what a step adds to the log: what the node was told, and what it did."""
    if answer.refusal:
        return StepEvents((log.Refused(reason=answer.refusal[:500]),), None)
    events: list[log.Event] = []
    if isinstance(asked, AskKey):
        events.append(log.KeyGiven(epoch=asked.terms.epoch, key=digest(b"f2ed log key 1", answer.reply)))
    if isinstance(asked, Opening) and asked.begins_round:
        under_way = asked.terms.round, asked.terms.shard, bind(asked.terms, member.roster, model)
        events.append(_began(asked.terms, under_way, model, asked.keyset if isinstance(asked, AskUpload) else b""))
    if under_way is not None:
        events += _during(asked, answer.reply, under_way)
    return StepEvents(tuple(events), under_way)


def _began(terms: Terms, under_way: UnderWay, model: bytes, keyset: bytes) -> log.Began:
    round_, shard, ctx = under_way
    return log.Began(
        round=round_,
        shard=shard,
        ctx=ctx,
        job=terms.job,
        input=model,
        members=digest(*map(unsigned, terms.members)),
        keyset=keyset,
    )


def _during(asked: Request, reply: bytes, under_way: UnderWay) -> list[log.Event]:
    """Return the events of a step in a round."""
    round_, shard, ctx = under_way
    if isinstance(asked, Peers):
        return [log.KeysSeen(round=round_, shard=shard, ctx=ctx, keyset=_keyset(asked.advertisements))]
    if isinstance(asked, Alive):
        return [log.Confirmed(round=round_, shard=shard, ctx=ctx, survivors=asked.clients)]
    if isinstance(asked, Delivery) and (disputed := read_reply(TolerantUpload, reply, payload=len(reply)).complaints):
        dealers = tuple(each.dealer for each in disputed)
        uploaded = log.Uploaded(round=round_, shard=shard, ctx=ctx)
        return [log.Complaint(round=round_, shard=shard, ctx=ctx, dealers=dealers), uploaded]
    if asked.asks_update:
        return [log.Uploaded(round=round_, shard=shard, ctx=ctx)]
    return []


def _keyset(keys: tuple[Message, ...]) -> bytes:
    """Return the digest of all members' signed keys, as the server showed them."""
    return digest(b"f2ed log keyset 1", *map(write, keys))
