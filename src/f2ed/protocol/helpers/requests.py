"""What the server asks of clients, mixer and judge."""

from typing import Annotated, final

from msgspec import Meta

from f2ed.protocol.helpers.messages import (
    Blob,
    Combined,
    Envelope,
    Ids,
    Message,
    Opening,
    Several,
    Signature,
    Strikes,
    Weighed,
)
from f2ed.protocol.helpers.terms import Id, Key, Terms

__all__ = [
    "AskBlame",
    "AskCombination",
    "AskGram",
    "AskMask",
    "AskOpening",
    "AskReveal",
    "AskRows",
    "AskSet",
    "AskShares",
    "AskShown",
    "AskStrikes",
    "AskUpload",
    "AskVote",
    "AskWeights",
    "Request",
]


Offending = Annotated[tuple[Id, ...], Meta(min_length=1, max_length=16)]


class Request(Message, frozen=True):
    """What the server sends."""


@final
class AskOpening(Request, frozen=True, tag="ask-opening"):
    """To both helpers: begin a round."""

    terms: Terms
    model: Key


@final
class AskUpload(Request, frozen=True, tag="ask-upload"):
    """To each client, with the model: the openings of server, mixer and judge."""

    terms: Terms
    openings: tuple[Opening, Opening, Opening]


@final
class AskVote(Request, frozen=True, tag="ask-vote"):
    """To both helpers: all openings, and the envelopes of the clients whose uploads arrived."""

    openings: tuple[Opening, Opening, Opening]
    envelopes: Annotated[tuple[Envelope, ...], Several]


@final
class AskSet(Request, frozen=True, tag="ask-set"):
    """To both helpers: the clients of this round, of those that the helper accepted."""

    clients: Ids


@final
class AskReveal(Request, frozen=True, tag="ask-reveal"):
    """To both helpers: the other one's signature on the same set."""

    other: Signature


@final
class AskShares(Request, frozen=True, tag="ask-shares"):
    """To the mixer: the judge's half of the seed, and the sketches of all masked rows, signed by the server."""

    seed: Key
    sealed: Blob
    signature: Signature


@final
class AskRows(Request, frozen=True, tag="ask-rows"):
    """To the mixer: the masked rows that it wants to check."""

    sealed: memoryview


@final
class AskGram(Request, frozen=True, tag="ask-gram"):
    """To the judge: the mixer's half of the seed, the server's shares, and the mixer's, each sealed to the judge."""

    seed: Key
    server: Blob
    mixer: Blob


@final
class AskCombination(Request, frozen=True, tag="ask-combination"):
    """To the mixer: the judge's random combination."""

    combined: Combined


@final
class AskWeights(Request, frozen=True, tag="ask-weights"):
    """To the judge: both copies of the combined rows."""

    server: Blob
    mixer: Blob


@final
class AskMask(Request, frozen=True, tag="ask-mask"):
    """To the mixer: the judge's decision."""

    weighed: Weighed


@final
class AskShown(Request, frozen=True, tag="ask-shown"):
    """To the mixer, after a sum out of range: the parts of the kept masked rows with the offending coordinates."""

    coordinates: Offending
    sealed: Blob


@final
class AskBlame(Request, frozen=True, tag="ask-blame"):
    """To the judge: smudged values of the offending coordinates, from the server, which signs them, and the mixer."""

    coordinates: Offending
    server: Blob
    mixer: Blob
    signature: Signature


@final
class AskStrikes(Request, frozen=True, tag="ask-strikes"):
    """To the mixer: the strikes of a blame step."""

    strikes: Strikes
