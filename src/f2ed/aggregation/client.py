"""The client's side: its update becomes integers once the terms are known."""

import numpy as np
import numpy.typing as npt

from f2ed.encoding import Encoding, Update, encode
from f2ed.secagg import Contribution, Terms
from f2ed.sharding import ClientId

__all__ = ["contribution"]


def contribution(update: Update, client: ClientId, *, key: bytes) -> Contribution:
    """Return what a client hands to `secagg.respond`: its update, encoded when the terms are known.

    `key` seeds the rounding: 32 bytes of `os.urandom`, or of a named stream in a simulation.
    """

    def encoded(terms: Terms) -> npt.NDArray[np.unsignedinteger]:
        encoding = Encoding(terms.clip, terms.l2, terms.bits, terms.ring)
        weight = terms.weight(client) / terms.weight_cap
        return encode(update, encoding, clients=len(terms.members), key=key, weight=weight)

    return encoded
