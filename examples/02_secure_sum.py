"""Secure aggregation without a network: 12 clients in 4 shards, and a server that sees only the shard means.

Every client holds a private key and everyone's public keys. The server sends bytes to clients and gets bytes back;
here that is a function call, in a deployment it is a network. In the end the server holds four means.

Run it: python examples/02_secure_sum.py
"""

import hashlib
import os
from collections.abc import Mapping

import numpy as np

import f2ed
from f2ed.protocol.aggregation import contribution
from f2ed.protocol.secagg import Member, encapsulate, public_key, respond


class Client:
    """One client: its key, its update and the state of the protocol."""

    def __init__(self, number: int, key: bytes, roster: Mapping[int, bytes], update: np.ndarray) -> None:
        self.member = Member(id=number, signing_key=key, roster=roster, job="example")
        self.update = update
        self.state = b""

    def answer(self, request: bytes, model: bytes) -> bytes:
        """Answer the server; store the new state first, as a client that can crash must."""
        answer = respond(
            self.member,
            self.state,
            request,
            model=model,
            contribution=contribution(self.update, self.member.id, key=os.urandom(32)),
            entropy=os.urandom(32),
            encapsulate=encapsulate,
        )
        self.state = answer.state
        return answer.reply


def main() -> None:
    rng = np.random.default_rng(0)
    updates = {number: rng.normal(0, 0.1, 1000).astype(np.float32) for number in range(12)}
    updates[5] += 0.8  # One client is malicious.

    keys = {number: os.urandom(32) for number in updates}
    roster = {number: public_key(key) for number, key in keys.items()}
    clients = {number: Client(number, keys[number], roster, updates[number]) for number in updates}
    model = hashlib.sha256(b"the global model that everyone was given").digest()
    uploads: list[bytes] = []

    def exchange(requests: Mapping[int, bytes]) -> dict[int, bytes]:
        replies = {number: clients[number].answer(request, model) for number, request in requests.items()}
        uploads[:] = replies.values()
        return replies

    assignment = f2ed.assign_shards(roster, shards=4, epoch=0, seed=b"a public seed that nobody chose")
    task = f2ed.Task(
        job="example", round=0, model=model, coordinates=1000, encoding=f2ed.Encoding(clip_value=4.0), roster=roster
    )
    estimate, audit = f2ed.robust_secure_mean(exchange, assignment, f2ed.FilterL2(contamination=0.25), task)

    honest = np.mean([update for number, update in updates.items() if number != 5], axis=0)
    plain = np.mean(list(updates.values()), axis=0)
    spread = np.std(np.frombuffer(uploads[0][-4000:], np.int32)) / 2**31
    print(audit.summary())
    print(f"An upload looks random: its words spread over {spread:.0%} of their range (uniform: 58%).")
    print(
        f"Weights of the shards: {np.round(estimate.weights, 2)}; the malicious client is in {assignment.shard_of(5)}."
    )
    print(f"The plain mean is off by {np.linalg.norm(plain - honest):.2f}, ", end="")
    print(f"the robust one by {np.linalg.norm(estimate.mean - honest):.2f}.")


if __name__ == "__main__":
    main()
