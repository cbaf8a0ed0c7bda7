"""How a server asks several parties and takes their replies.

A driver sends what it has, `{party: bytes}`; the generator yields `{}` while it waits for more. A step ends when every
party that was asked has answered, or when the driver sends `{}`: the deadline has passed, and parties that did not
answer are dropped. So the plain loop `requests = server.send(exchange(requests))` works, and so does one reply at a
time, which keeps one upload in memory and not one per client.
"""

from collections.abc import Callable, Generator, Mapping
from typing import Any, TypeVar

from f2ed.core.errors import PeerError

__all__ = ["gather", "was_silent"]

Party = TypeVar("Party", bound=int | str)
Result = TypeVar("Result")
_NO_REPLY = "no reply"


def gather(
    what: str,
    requests: Mapping[Party, bytes],
    take: Callable[[Party, bytes], Result],
    dropped: dict[Party, str],
) -> Generator[Mapping[Any, bytes], Mapping[Any, bytes], dict[Party, Result]]:
    """Ask, and take each reply as it comes; a party that `take` rejects, or that does not answer, is dropped.

    A second reply, or one from one that was not asked, is ignored: the first one stands.
    """
    taken: dict[Party, Result] = {}
    waiting = set(requests)
    replies = yield requests
    while replies:
        for party in replies:
            if party not in waiting:
                continue
            waiting.remove(party)
            try:
                taken[party] = take(party, replies[party])
            except PeerError as error:
                dropped[party] = f"{what}: {error}"
        if not waiting:
            break
        replies = {}  # An upload may fill the memory: release it while waiting for the next.
        replies = yield {}
    dropped.update(dict.fromkeys(waiting, f"{what}: {_NO_REPLY}"))
    return dict(sorted(taken.items()))


def was_silent(reason: str) -> bool:
    """Return whether a party was dropped because it did not answer."""
    return reason.endswith(f": {_NO_REPLY}")
