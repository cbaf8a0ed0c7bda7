"""The key agreement of an honest server, for tests that lie later."""

from f2ed.protocol.secagg import scheme_of
from f2ed.protocol.secagg.schemes import read_request


def agree(terms, roster, ask, dropped=None):
    """Return the keys of a shard; `ask(client, request)` returns a reply's bytes. Raise `PeerError` if one refuses."""
    server = scheme_of(terms.mode).agree_on_keys(terms, roster, {} if dropped is None else dropped)
    requests = next(server)
    try:
        while True:
            replies = {client: ask(client, read_request(request)) for client, request in requests.items()}
            requests = server.send(replies)
    except StopIteration as stop:
        return stop.value
