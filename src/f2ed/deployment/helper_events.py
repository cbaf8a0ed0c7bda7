"""What a helper writes into its transparency log for each step that it takes."""

import hashlib
from typing import Any, cast

import msgspec

from f2ed.deployment.transparency import lines as log
from f2ed.protocol.helpers import Answer, Terms
from f2ed.protocol.helpers import requests as asked
from f2ed.protocol.helpers.common_steps import begun
from f2ed.protocol.helpers.envelope import envelope_digest
from f2ed.protocol.helpers.helper_state import RoundState
from f2ed.protocol.helpers.machine import Taken
from f2ed.protocol.helpers.messages import (
    Combined,
    MaskedSum,
    Opening,
    SealedShares,
    ShownValues,
    Strikes,
    Vote,
    Weighed,
    write,
)
from f2ed.protocol.helpers.mixer import given_mask
from f2ed.protocol.primitives.crypto import digest
from f2ed.protocol.primitives.fields import unsigned

__all__ = ["began_with_helpers", "helper_events", "openings_digest"]


def helper_events(found: Answer) -> tuple[log.Event, ...]:
    """Return what an answer adds to the log: what the helper was told, and what it did. A repeated one adds nothing."""
    if found.refusal:
        return (log.Refused(reason=found.refusal[:500]),)
    if found.taken is None or found.taken.after.round is None:
        return ()
    return _events(found.taken, found.taken.after.round, _sha256(found.reply))


def began_with_helpers(terms: Terms, context: bytes, model: bytes, keyset: bytes = b"") -> log.Began:
    """Return the event of a client or helper that takes part in a round; all clients are its one shard."""
    return log.Began(
        round=terms.round,
        shard=0,
        ctx=context,
        job=terms.job,
        input=model,
        members=digest(*map(unsigned, terms.members)),
        keyset=keyset,
        terms=digest(b"f2ed log terms 1", msgspec.msgpack.encode(terms)),
    )


def openings_digest(openings: tuple[Opening, ...]) -> bytes:
    """Return the digest of the parties' signed keys of a round, as the server showed them."""
    return digest(b"f2ed log openings 1", *map(write, openings))


def _events(taken: Taken, now: RoundState, answer: bytes) -> tuple[log.Event, ...]:
    request, reply = taken.request, taken.reply
    place: dict[str, Any] = {"round": now.terms.round, "shard": 0, "ctx": now.context}
    if isinstance(request, asked.AskOpening):
        return (began_with_helpers(now.terms, now.context, request.model),)
    if isinstance(request, asked.AskVote):
        keys = log.KeysSeen(**place, keyset=openings_digest(request.openings))
        return keys, _voted(request, cast("Vote", reply), place)
    if isinstance(request, asked.AskSet):
        return (log.SetSigned(**place, clients=request.clients, envelopes=now.clients),)
    if isinstance(request, asked.AskMask):
        return (_decided(request.weighed, _mask(taken, request.weighed), answer, place),)
    if isinstance(reply, Weighed):
        return (_decided(reply, reply.mask, answer, place),)
    if isinstance(reply, Strikes):
        return (log.Struck(**place, clients=reply.struck),)
    if isinstance(reply, Combined):
        return (log.Gave(**place, what="combination", answer=answer, opened=_sha256(now.matrix)),)
    if isinstance(reply, SealedShares):
        combined = isinstance(request, asked.AskCombination)
        return (log.Gave(**place, what="combination" if combined else "shares", answer=answer),)
    if isinstance(reply, ShownValues):
        return (log.Gave(**place, what="values", answer=answer),)
    return ()  # Nothing was opened: rows to check were chosen, or the half of the seed that was committed to was told.


def _voted(request: asked.AskVote, reply: Vote, place: dict[str, Any]) -> log.Voted:
    accused = {str(each.client): each.reason for each in reply.accused}
    return log.Voted(**place, shown=digest(*map(envelope_digest, request.envelopes)), accused=accused)


def _mask(taken: Taken, weighed: Weighed) -> bytes:
    """Return the digest of the mixer's part of the sum; where nobody is kept it is that of nothing, as the judge's."""
    if not weighed.kept:
        return weighed.mask
    return _sha256(given_mask(begun(taken.before), cast("MaskedSum", taken.reply)))


def _decided(weighed: Weighed, mask: bytes, answer: bytes, place: dict[str, Any]) -> log.Decided:
    return log.Decided(**place, survivors=weighed.kept, struck=weighed.struck, mask=mask, answer=answer)


def _sha256(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()
