"""The cost of one dropout-tolerant round with hybrid keys and with X25519 alone.

    python benchmarks/tolerant_keys.py

Two members drop out before they upload. Milliseconds of CPU time and kilobytes, per client and for the server.
"""

import os
from time import process_time

import numpy as np

from f2ed.protocol.primitives.hybrid import encapsulate
from f2ed.protocol.secagg import Member, Terms, public_key, respond, scheme_of, secure_sum

SIZES = (20, 100)
LENGTH = 1000
UPLOAD = 2  # the third of five steps


def terms_of(size: int, agreement: str) -> Terms:
    """Return the terms of a shard of clients 1 to `size`."""
    threshold, min_crowd = scheme_of("dropout-tolerant").quorum(size, 0)
    return Terms(
        job="cost", epoch=0, round=0, shard=0, members=tuple(range(1, size + 1)), mode="dropout-tolerant",
        threshold=threshold, min_crowd=min_crowd, length=LENGTH, ring=32, bits=16, clip_value=1.0, clip_norm=10.0,
        agreement=agreement,
    )  # fmt: skip


def measured(terms: Terms) -> np.ndarray:
    """Return milliseconds per client and of the server, and kilobytes up and down per client."""
    signing = {client: os.urandom(32) for client in terms.members}
    roster = {client: public_key(key) for client, key in signing.items()}
    states = dict.fromkeys(terms.members, b"")
    server = secure_sum(terms, roster, model=bytes(32))
    began, clients, up, down = process_time(), 0.0, 0, 0
    requests = next(server)
    for step in range(5):
        replies = {}
        for client, request in requests.items():
            if step == UPLOAD and client in terms.members[:2]:
                continue
            start = process_time()
            answer = respond(
                Member(id=client, signing_key=signing[client], roster=roster, job="cost"), states[client], request,
                model=bytes(32), contribution=lambda _: np.ones(LENGTH, np.uint32), entropy=os.urandom(32),
                encapsulate=encapsulate,
            )  # fmt: skip
            clients += process_time() - start
            states[client], replies[client] = answer.state, answer.reply
            up, down = up + len(answer.reply), down + len(request)
        try:
            requests = server.send(replies) or server.send({})
        except StopIteration as stop:
            outcome = stop.value
    count = len(terms.members)
    assert (outcome.total == count - 2).all()
    times = 1e3 * clients / count, 1e3 * (process_time() - began - clients)
    return np.array([*times, up / count / 1e3, down / count / 1e3])


if __name__ == "__main__":
    for size in SIZES:
        light, hybrid = (measured(terms_of(size, kind)) for kind in ("x25519", "x25519+mlkem768"))
        for name, row in (("x25519", light), ("hybrid", hybrid), ("ratio", hybrid / light)):
            print(f"{size:4} {name:8} " + " ".join(f"{value:8.2f}" for value in row))
