"""Asks helpers again that gave no answer, as long as a deadline allows: one that was restarted repeats its answers."""

import time
from collections.abc import Iterator, Mapping
from typing import Any

from f2ed.core.errors import PeerError
from f2ed.flower.courier import SILENT
from f2ed.flower.transport import RoundExchange
from f2ed.protocol.helpers.messages import Refused, decode

__all__ = ["Persistent"]

_PAUSE = 0.5


class Persistent:
    """An exchange in which a helper may be down for a while. Clients are asked once."""

    def __init__(self, exchange: RoundExchange, patience: float) -> None:
        self._exchange, self._patience = exchange, patience

    def __call__(self, requests: Mapping[Any, bytes]) -> Iterator[tuple[Any, bytes]]:
        """Deliver requests and yield replies in the order of arrival."""
        until, exchange = time.monotonic() + self._patience, self._exchange
        while requests:
            down: dict[Any, bytes] = {}
            for party, reply in exchange(requests):
                if _is_down(party, reply):
                    down[party] = reply
                else:
                    exchange.errors.pop(party, None)
                    yield party, reply
            left = [party for party in requests if party in down or self._failed(party)]
            if not left or time.monotonic() >= until:
                yield from down.items()
                return
            requests = {party: requests[party] for party in left}
            time.sleep(_PAUSE)

    def _failed(self, party: Any) -> bool:
        """Return whether Flower could not reach the node of a helper, or it answered with an error."""
        exchange = self._exchange
        return isinstance(party, str) and party in exchange.errors and party not in exchange.late


def _is_down(party: Any, reply: bytes) -> bool:
    """Return whether this is what a node says whose helper does not answer."""
    if not isinstance(party, str):
        return False
    try:
        found = decode((Refused,), reply)
    except PeerError:
        return False
    return isinstance(found, Refused) and found.reason == SILENT
