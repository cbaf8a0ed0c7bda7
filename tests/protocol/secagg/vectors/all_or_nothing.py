"""The transcripts of all-or-nothing rounds."""

import numpy as np
from msgspec.structs import replace

from f2ed.protocol.primitives.crypto import digest, ratchet, sign
from f2ed.protocol.primitives.hybrid import Agreement, Encapsulated, HybridKey
from f2ed.protocol.secagg.keys import pair_mask
from f2ed.protocol.secagg.masks import add_masks
from f2ed.protocol.secagg.messages import AskChains, AskWraps, write
from f2ed.protocol.secagg.schemes import read_request
from f2ed.protocol.secagg.schemes.all_or_nothing import pairs
from tests.protocol.primitives.mlkem_reference import seeded
from tests.protocol.secagg.shard_driver import Shard, secret
from tests.protocol.secagg.vectors.transcript import good, setting

GOOD = {
    "all-or-nothing, four members": {"size": 4},
    "all-or-nothing, three members, 16-bit ring": {"size": 3, "ring": 16, "bits": 12},
    "all-or-nothing, five members, X25519 alone": {"size": 5, "agreement": "x25519"},
}


def bad(name: str, step: str, change, refusal: str) -> dict:
    """Return a message to client 2 of four, and what must be in its refusal."""
    shard, found = Shard(4, "all-or-nothing", seed=name, length=6, exact=True), {}

    def request(at, client, data):
        if (at, client) != (step, 2):
            return data
        data = write(change(shard, read_request(data)))
        found.update(state=shard.states[2].hex(), request=data.hex())
        return data

    shard.run(request=request)
    return {"name": name, "client": 2, **setting(shard), **found, "refusal": refusal}


def of_another_epoch(shard: Shard, ask: AskWraps) -> AskWraps:
    stale = replace(ask.keys[0], signature=sign(shard.signing[1], pairs.key_text(bytes(32), ask.keys[0])))
    return replace(ask, keys=(stale, *ask.keys[1:]))


def changed(ask: AskChains) -> AskChains:
    first, *rest = ask.wraps
    return replace(ask, wraps=(replace(first, ciphertext=bytes(1088)), *rest))


TO_CLIENT = {
    "the key of another epoch": ("wraps", of_another_epoch, "does not verify"),
    "a member's keys are left out": (
        "wraps", lambda _, ask: replace(ask, keys=ask.keys[:-1]), "not exactly those of the members"),
    "a ciphertext is changed": ("chains", lambda _, ask: changed(ask), "signed another ciphertext"),
    "a ciphertext is left out": ("chains", lambda _, ask: replace(ask, wraps=ask.wraps[1:]), "not exactly those"),
    "the keys of another round": ("upload", lambda _, ask: replace(ask, since=1), "made in round 1"),
    "another set of keys": ("upload", lambda _, ask: replace(ask, keyset=bytes(32)), "other keys of round 0"),
}  # fmt: skip


def chain(name: str, kind: Agreement) -> dict:
    """Return a pair's way from keys and ciphertext to the masks of three rounds."""
    context = digest(name.encode())
    sender, recipient = (HybridKey(secret(name, i), salt=context, label=b"epoch", kind=kind) for i in (1, 2))
    kem = recipient.public.kem
    made = seeded(name)(kem) if kem else Encapsulated(b"", b"")
    key = pairs.root(
        context,
        sender=1,
        recipient=2,
        keys=(sender.public.exchange, recipient.public.exchange),
        recipient_kem=kem,
        ciphertext=made.ciphertext,
        exchanged=sender.exchange(recipient.public.exchange),
        encapsulated=made.secret,
    )
    rounds = {}
    for round_ in range(50):
        if round_ in (0, 1, 49):
            mask = pair_mask(digest(context, b"round"), key, 1, 2)
            words = np.zeros(4, np.uint32)
            add_masks(words, [mask])
            rounds[str(round_)] = {"chain": key.hex(), "mask": mask.key.hex(), "words": words.tolist()}
        key = ratchet(key)
    return {
        "name": name,
        "kind": kind,
        "context": context.hex(),
        "seeds": [secret(name, i).hex() for i in (1, 2)],
        "ciphertext": made.ciphertext.hex(),
        "encapsulated": made.secret.hex(),
        "rounds": rounds,
    }


def build() -> dict[str, dict]:
    """Return the contents of the files by name."""
    return {
        "all_or_nothing_good.json": {
            "version": 3,
            "rounds": [good(name, mode="all-or-nothing", **how) for name, how in GOOD.items()],
            "chains": [chain("hybrid", "x25519+mlkem768"), chain("x25519 alone", "x25519")],
        },
        "all_or_nothing_bad.json": {
            "version": 3,
            "to_client": [bad(name, *how) for name, how in TO_CLIENT.items()],
            "to_server": [],
        },
    }
