"""The client's side: its update becomes integers once the terms are known."""

import numpy as np
import numpy.typing as npt

from f2ed.protocol.aggregation.task import agreed_encoding
from f2ed.protocol.quantization.encoding import Update, encode
from f2ed.protocol.secagg import Contribution, Terms
from f2ed.protocol.sharding import ClientId

__all__ = ["contribution"]


def contribution(update: Update, client: ClientId, *, key: bytes) -> Contribution:
    """Return what a client hands to `secagg.respond`: its update, encoded when the terms are known.

    `key` seeds the rounding and the noise: 32 bytes of `os.urandom`, or of a named stream in a simulation.
    """

    def encoded(terms: Terms) -> npt.NDArray[np.unsignedinteger]:
        encoding = agreed_encoding(terms, len(update))
        weight = terms.weight(client) / terms.weight_cap
        return encode(update, encoding, clients=len(terms.members), key=key, weight=weight)

    return encoded
