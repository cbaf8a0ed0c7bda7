"""What the parties sign, each text with its own first words, so that no signature serves for another."""

import hashlib
from collections.abc import Iterable, Sequence

from f2ed.protocol.helpers.envelope import envelope_digest
from f2ed.protocol.helpers.messages import Accusation, Combined, Envelope, Weighed, write
from f2ed.protocol.helpers.terms import Role
from f2ed.protocol.primitives.crypto import digest
from f2ed.protocol.primitives.fields import fields, unsigned
from f2ed.protocol.sharding import ClientId

__all__ = [
    "blame_text",
    "combined_text",
    "set_digest",
    "set_text",
    "sketches_text",
    "strikes_text",
    "vote_text",
    "weighed_text",
]


def set_digest(context: bytes, clients: Iterable[tuple[ClientId, bytes]]) -> bytes:
    """Return the digest of a set: its clients and the digests of their envelopes."""
    return digest(b"f2ed helpers set", context, *(part for one, each in clients for part in (unsigned(one), each)))


def set_text(context: bytes, role: Role, clients: bytes) -> bytes:
    """Return what a helper signs about the set."""
    return fields(b"f2ed helpers set 1", context, role.encode(), clients)


def vote_text(context: bytes, role: Role, envelopes: Sequence[Envelope], accused: tuple[Accusation, ...]) -> bytes:
    """Return what a helper signs about its accusations."""
    shown = digest(*map(envelope_digest, envelopes))
    return fields(b"f2ed helpers vote 1", context, role.encode(), shown, *map(write, accused))


def sketches_text(context: bytes, clients: bytes, data: bytes) -> bytes:
    """Return what the server signs about its sketches: evidence, should a checked row not match."""
    return fields(b"f2ed helpers sketches 1", context, clients, hashlib.sha256(data).digest())


def combined_text(context: bytes, clients: bytes, combined: Combined) -> bytes:
    """Return what the judge signs about its random combination."""
    return fields(b"f2ed helpers combination 1", context, clients, combined.weights)


def weighed_text(context: bytes, clients: bytes, weighed: Weighed) -> bytes:
    """Return what the judge signs about its decision."""
    diagnostics = repr((weighed.eigenvalue, weighed.iterations, weighed.stopped)).encode()
    kept, struck = _joined(weighed.kept), _joined(weighed.struck)
    return fields(b"f2ed helpers decision 1", context, clients, kept, struck, weighed.mask, diagnostics)


def strikes_text(context: bytes, clients: bytes, struck: Sequence[ClientId]) -> bytes:
    """Return what the judge signs about strikes."""
    return fields(b"f2ed helpers strikes 1", context, clients, _joined(struck))


def blame_text(context: bytes, clients: bytes, coordinates: Sequence[int], sealed: bytes) -> bytes:
    """Return what the server signs about a blame step."""
    return fields(b"f2ed helpers blame 1", context, clients, _joined(coordinates), sealed)


def _joined(numbers: Sequence[int]) -> bytes:
    return b"".join(map(unsigned, numbers))
