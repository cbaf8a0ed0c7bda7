"""A lying server and malicious members, as hooks on what travels in a shard."""

from msgspec.structs import replace

from f2ed.protocol.primitives.crypto import sign
from f2ed.protocol.secagg.messages import SignedKey, read_reply, write
from f2ed.protocol.secagg.schemes import read_request
from f2ed.protocol.secagg.schemes.all_or_nothing.pairs import key_text
from f2ed.protocol.secagg.schemes.dropout_tolerant import keys
from f2ed.protocol.secagg.terms import bind, bind_epoch
from tests.protocol.secagg.shard_driver import MODEL, load

VICTIM = 2
LOW_ORDER = bytes(32)


def lie(at, change, to=VICTIM):
    """Return a hook that rewrites the request of one step to one client."""

    def request(step, client, data):
        return write(change(read_request(data))) if (step, client) == (at, to) else data

    return request


def cheat(at, kind, change, by=VICTIM):
    """Return a hook that rewrites the reply of one client at one step."""

    def reply(step, client, data):
        return write(change(read_reply(kind, data, payload=10**6))) if (step, client) == (at, by) else data

    return reply


def assert_refused(shard, outcome, why, victim=VICTIM):
    """The victim refused for the right reason, the server received the reason, and no other client stopped."""
    assert why in shard.refusals[victim]
    assert shard.refusals.keys() == {victim}
    assert "it refused" in outcome.dropped[victim]
    assert load(shard.states[victim], "test").phase is None


def signed(shard, client, message, context=None):
    """Sign an advertisement as the client itself would."""
    context = context or bind(shard.terms, shard.roster, MODEL)
    return replace(message, signature=sign(shard.signing[client], keys.advertisement_text(context, message)))


def epoch_signed(shard, client, key, kem):
    """Sign keys of the epoch as the client itself would."""
    message = SignedKey(client, key, kem, bytes(64))
    context = bind_epoch(shard.terms, shard.roster, shard.terms.round)
    return replace(message, signature=sign(shard.signing[client], key_text(context, message)))
