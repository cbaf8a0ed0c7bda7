"""Write the transcript vectors of the secure aggregation: `python -m tests.protocol.secagg.vectors.generate`.

Each scheme has two files. `…_good.json` holds whole rounds: fixed keys, entropy and integers, every request and reply,
and the sum. `…_bad.json` holds single messages that must be refused, with what the refusal must contain: to a client in
a given state, or to a server that awaits a reply. All bytes are in hexadecimal; entropy is what each step was given,
and encapsulated what each ML-KEM key was answered with, as (ciphertext, secret).
"""

import json
from pathlib import Path

from msgspec.structs import replace

from f2ed.protocol.secagg.messages import read_reply, write
from f2ed.protocol.secagg.schemes import read_request
from f2ed.protocol.secagg.schemes.dropout_tolerant.messages import (
    Advertisement,
    Alive,
    Confirmations,
    Delivery,
    Peers,
    Reveal,
    Shares,
    TolerantUpload,
)
from tests.protocol.secagg.shard_driver import Shard
from tests.protocol.secagg.vectors import all_or_nothing
from tests.protocol.secagg.vectors.transcript import good, setting

HERE = Path(__file__).parent
LIGHT = {"agreement": "x25519"}

# A round of hybrid keys takes 100 kB in writing, so that most rounds have X25519 alone.
GOOD = {
    "dropout-tolerant, hybrid keys": {"size": 4, "agreement": "x25519+mlkem768"},
    "dropout-tolerant, hybrid keys, one drops before uploading": {
        "size": 4, "agreement": "x25519+mlkem768", "drop": ("upload", 2),
    },
    "dropout-tolerant, nobody drops": {"size": 4},
    "dropout-tolerant, packed 24-bit ring, public weights": {
        "size": 3, "ring": 24, "bits": 20, "weights": (1, 2, 3), "weight_cap": 3,
    },
    "dropout-tolerant, 64-bit ring, one colluder": {"size": 5, "ring": 64, "bits": 30, "colluders": 1},
    "dropout-tolerant, one drops before sharing": {"size": 5, "drop": ("share", 2)},
    "dropout-tolerant, one drops before uploading": {"size": 5, "drop": ("upload", 4)},
    "dropout-tolerant, one drops before confirming": {"size": 5, "drop": ("confirm", 1)},
    "dropout-tolerant, one drops before revealing": {"size": 5, "drop": ("reveal", 3)},
    "dropout-tolerant, a higher threshold": {"size": 5, "threshold": 4, "min_crowd": 4, "drop": ("upload", 5)},
    "dropout-tolerant, pairs, one drops before uploading": {
        "size": 8, "groups": ((1, 2), (3, 4), (5, 6), (7, 8)), "drop": ("upload", 4),
    },
    "dropout-tolerant, noise that three members carry": {"size": 4, "noise": 1.5, "carriers": 3},
}  # fmt: skip


def flip(data: bytes) -> bytes:
    return bytes([data[0] ^ 1]) + data[1:]


def parcel(delivery: Delivery, **changes) -> tuple:
    """Change fields of the first parcel."""
    return first(delivery.parcels, parcel=replace(delivery.parcels[0].parcel, **changes))


def first(items: tuple, **changes) -> tuple:
    """Change fields of the first item."""
    return (replace(items[0], **changes), *items[1:])


# What the server sends to client 2 of five, and what must be in its refusal. The names seed the vectors.
TO_CLIENT = {
    "a peer's mask key is substituted": (
        "share", lambda m: Peers(first(m.advertisements, mask=flip(m.advertisements[0].mask))), "does not verify"),
    "a peer's signature is spoilt": (
        "share", lambda m: Peers(first(m.advertisements, signature=bytes(64))), "does not verify"),
    "its own keys are absent": (
        "share", lambda m: Peers((m.advertisements[0], *m.advertisements[2:])), "absent or were replaced"),
    "a key is there twice": (
        "share", lambda m: Peers((m.advertisements[0], *m.advertisements)), "names one twice"),
    "too few advertised": ("share", lambda m: Peers(m.advertisements[:2]), "2 members advertised"),
    "a ciphertext is corrupted": (
        "upload", lambda m: Delivery(parcel(m, sealed=flip(m.parcels[0].parcel.sealed))), "not as its dealer signed"),
    "a commitment is corrupted": (
        "upload", lambda m: Delivery(parcel(m, seed=flip(m.parcels[0].parcel.seed))), "not as its dealer signed"),
    "a parcel for another client": (
        "upload", lambda m: Delivery(parcel(m, recipient=3)), "was delivered to client 2"),
    "too few shared": ("upload", lambda m: Delivery(m.parcels[:1]), "2 members shared"),
    "it is said to have dropped": ("confirm", lambda _: Alive((1, 3, 4, 5)), "listed as dropped"),
    "a survivor who never shared": ("confirm", lambda m: Alive((*m.clients, 9)), "never shared"),
    "too few are alive": ("confirm", lambda _: Alive((1, 2)), "2 members are alive"),
    "a survivor twice": ("confirm", lambda _: Alive((1, 2, 2, 3)), "names one twice"),
    "a confirmation of another list": (
        "reveal", lambda m: Confirmations(first(m.signatures, signature=bytes(64))), "split view"),
    "too few confirmed": ("reveal", lambda m: Confirmations(m.signatures[:2]), "2 confirmed"),
    "a step is skipped": ("confirm", lambda _: Confirmations(()), "out of order"),
}  # fmt: skip

# What client 2 of five sends to the server, and why it must be dropped.
TO_SERVER = {
    "keys with a bad signature": ("advertise", Advertisement, lambda m: replace(m, signature=bytes(64)), "not verify"),
    "keys in another's name": ("advertise", Advertisement, lambda m: replace(m, client=3), "in the name of client 3"),
    "a destination is missing": (
        "share", Shares, lambda m: replace(m, parcels=m.parcels[1:]), "exactly the other members"),
    "a destination is itself": (
        "share", Shares, lambda m: replace(m, parcels=first(m.parcels, recipient=2)), "exactly the other members"),
    "an upload of another length": (
        "upload", TolerantUpload, lambda m: replace(m, payload=bytes(m.payload)[1:]), "an upload of 23 bytes"),
    "an upload under another context": (
        "upload", TolerantUpload, lambda m: replace(m, tag=bytes(8)), "another context"),
    "a wrong share": (
        "reveal", Reveal, lambda m: replace(m, shares=first(m.shares, share=bytes(33))), "not match its commitment"),
    "a share is missing": ("reveal", Reveal, lambda m: replace(m, shares=m.shares[1:]), "exactly one per member"),
}  # fmt: skip


def bad_for_client(name: str, step: str, change, refusal: str) -> dict:
    shard, found = Shard(5, seed=name, length=6, exact=True, **LIGHT), {}

    def request(at, client, data):
        if (at, client) != (step, 2):
            return data
        data = write(change(read_request(data)))
        found.update(state=shard.states[2].hex(), request=data.hex())
        return data

    shard.run(request=request)
    return {"name": name, "client": 2, **setting(shard), **found, "refusal": refusal}


def bad_for_server(name: str, step: str, kind: type, change, reason: str) -> dict:
    shard, replies = Shard(5, seed=name, length=6, exact=True, **LIGHT), []

    def reply(at, client, data):
        if (at, client) == (step, 2):
            data = write(change(read_reply(kind, data, payload=1000)))
        replies.append({"step": at, "client": client, "reply": data.hex()})
        return data

    outcome = shard.run(reply=reply)
    return {
        "name": name, **setting(shard), "replies": replies, "dropped": 2, "reason": reason,
        "survivors": list(outcome.survivors), "sum": shard.total_of(outcome),
    }  # fmt: skip


def build() -> dict[str, dict]:
    """Return the contents of the files by name."""
    return all_or_nothing.build() | {
        "dropout_tolerant_good.json": {
            "version": 3,
            "rounds": [good(name, **LIGHT | how) for name, how in GOOD.items()],
        },
        "dropout_tolerant_bad.json": {
            "version": 3,
            "to_client": [bad_for_client(name, *how) for name, how in TO_CLIENT.items()],
            "to_server": [bad_for_server(name, *how) for name, how in TO_SERVER.items()],
        },
    }


if __name__ == "__main__":
    for file, content in build().items():
        (HERE / file).write_text(json.dumps(content, indent=1) + "\n")
