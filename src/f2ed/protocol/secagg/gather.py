"""How the leading side asks: it yields requests and is sent replies, in as many pieces as they arrive in.

A driver sends what it has, `{client: bytes}`; the generator yields `{}` while it waits for more. A step ends when
everyone who was asked has answered, or when the driver sends `{}`: the deadline has passed, and whoever is silent is
dropped. So the plain loop `requests = server.send(exchange(requests))` works, and so does one reply at a time, which
keeps one upload in memory and not one per client.
"""

from collections.abc import Callable, Generator, Iterable, Mapping
from typing import TypeVar

from f2ed.core.errors import PeerError
from f2ed.protocol.sharding import ClientId

__all__ = ["Replies", "Requests", "gather", "name_some"]

Requests = Mapping[ClientId, bytes]
Replies = Mapping[ClientId, bytes]
Result = TypeVar("Result")


def gather(
    what: str,
    requests: Requests,
    take: Callable[[ClientId, bytes], Result],
    dropped: dict[ClientId, str],
) -> Generator[Requests, Replies, dict[ClientId, Result]]:
    """Ask, and take each reply as it comes; a client that `take` objects to, or that is silent, is dropped.

    A second reply, or one from somebody who was not asked, is not looked at: the first one stands.
    """
    taken: dict[ClientId, Result] = {}
    waiting = set(requests)
    replies = yield requests
    while replies:
        for client in replies:
            if client not in waiting:
                continue
            waiting.remove(client)
            try:
                taken[client] = take(client, replies[client])
            except PeerError as error:
                dropped[client] = f"{what}: {error}"
        if not waiting:
            break
        replies = {}  # An upload may be all the memory there is: let go of it while waiting for the next.
        replies = yield {}
    dropped.update(dict.fromkeys(waiting, f"{what}: no reply"))
    return dict(sorted(taken.items()))


def name_some(clients: Iterable[ClientId]) -> str:
    """Name the first few clients, for a reason that stays readable."""
    names = [str(client) for client in sorted(clients)]
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
