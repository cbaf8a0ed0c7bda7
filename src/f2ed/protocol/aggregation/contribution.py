"""The client's side: its update becomes integers once the terms are known."""

import numpy as np
import numpy.typing as npt

from f2ed.core.errors import ConfigError
from f2ed.protocol.aggregation.task import agreed_encoding
from f2ed.protocol.primitives.crypto import Keystream
from f2ed.protocol.primitives.ring import Ring
from f2ed.protocol.quantization.encoding import Update, encode
from f2ed.protocol.secagg import Contribution, Terms, Words
from f2ed.protocol.sharding import ClientId

__all__ = ["check_length", "contribution", "random_words"]


def contribution(update: Update, client: ClientId, *, key: bytes) -> Contribution:
    """Return what a client hands to `secagg.respond`: its update, encoded when the terms are known.

    `key` seeds the rounding and the noise: 32 bytes of `os.urandom`, or of a named stream in a simulation.
    """

    def encoded(terms: Terms) -> npt.NDArray[np.unsignedinteger]:
        encoding = agreed_encoding(terms, len(update))
        weight = terms.weight(client) / terms.weight_cap
        return encode(update, encoding, clients=len(terms.members), key=key, weight=weight)

    return encoded


def check_length(terms: Terms, coordinates: int) -> None:
    """Raise `ConfigError` for terms under which an update of this many coordinates cannot be encoded."""
    encoding = agreed_encoding(terms, coordinates)
    encoding.ring_for(len(terms.members))
    if terms.length != (takes := encoding.length(coordinates)):
        raise ConfigError(f"the terms add {terms.length} words; the model's {coordinates} coordinates take {takes}")


def random_words(terms: Terms, *, key: bytes) -> Words:
    """Return what a client contributes in place of an update that it could not make: uniformly random words.

    Nobody can tell them from a masked update, and the sum of the shard is random. Zeros would be worse than an error:
    a model that fails on all members but one would leave that one alone in the sum. `key` is 32 bytes of `os.urandom`.
    """
    words = Ring(terms.ring).zeros(terms.length)
    Keystream(key).fill(words.view(np.uint8).data)
    return words
